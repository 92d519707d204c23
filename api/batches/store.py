"""The database of batches, and their changes. Every function runs in the caller's transaction."""

import dataclasses
import sqlite3
import time
from typing import Any, ClassVar

from api.batches.types import UNFINISHED, BatchJob
from inference.database import Schema
from inference.errors import BadRequest, NotFound, ServerError, short
from tuning.store.table import Table

MAX_UNFINISHED = 100  # batches: each has open files while its requests run

BATCHES = Table("batches", BatchJob)
SCHEMA = Schema("the store of batches", 1, BATCHES.definition)


class UnknownBatch(NotFound):
    def __init__(self, id: str) -> None:
        super().__init__(f"No batch found with id {short(id)}.")


class BatchConflict(ServerError):
    """The state of a batch, or a former order, excludes what a request asks for."""

    status: ClassVar[int] = 409


def insert_batch(connection: sqlite3.Connection, batch: BatchJob) -> BatchJob:
    """Store a new batch. Returns the batch of an equal order with the same idempotency key in its place.

    Raises BatchConflict if that order was another one, and BadRequest for too many unfinished batches.
    """
    key = batch.order.idempotency_key
    if key is not None:
        for former in BATCHES.select(connection, "order.idempotency_key", [key]):
            if former.order == batch.order:
                return former
            raise BatchConflict(
                f"Idempotency key {short(key)} was previously used with different parameters: use another "
                "key, or the same parameters"
            )
    if len(unfinished_batches(connection)) >= MAX_UNFINISHED:
        rule = f"{MAX_UNFINISHED} batches are unfinished, the most at a time: cancel one, or wait for its end"
        raise BadRequest("", rule)
    BATCHES.insert(connection, batch)
    return batch


def find_batch(connection: sqlite3.Connection, id: str) -> BatchJob:
    """Raises UnknownBatch."""
    batch = BATCHES.find(connection, id)
    if batch is None:
        raise UnknownBatch(id)
    return batch


def update_batch(connection: sqlite3.Connection, batch: BatchJob) -> None:
    BATCHES.update(connection, batch)


def unfinished_batches(connection: sqlite3.Connection) -> list[BatchJob]:
    """Oldest first."""
    return list(BATCHES.select(connection, "status", UNFINISHED))


def with_changes(batch: BatchJob, **changes: Any) -> BatchJob:
    """The batch with other fields. A new status gets its time."""
    batch = dataclasses.replace(batch, **changes)
    if "status" in changes:
        batch = dataclasses.replace(batch, times={**batch.times, batch.status: int(time.time())})
    return batch
