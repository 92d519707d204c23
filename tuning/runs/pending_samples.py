"""The requests for samples whose results no client has asked for yet: a restarted server knows their ids.

A client that polls for a whole sampling session waits for these ids. Once it hears that a result is gone, it
sends the request again. May be called from any thread.
"""

import sqlite3
import time

from inference.database import Database
from tuning.runs.promise import UNFETCHED_S
from tuning.runs.store import PENDING_SAMPLES, SAMPLERS, change
from tuning.runs.types import SamplingSession, UnfetchedSample


class PendingSamples:
    """The pending samples of all sampling sessions. clone: the number of a session's client, from 0."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.remove_old()

    def add(self, request_id: str, sampler_id: str, clone: int) -> None:
        """No effect on a request that is there already."""
        sample = UnfetchedSample(id=request_id, created=int(time.time()))
        self._database.run(insert_once, sample, client_of(sampler_id, clone))

    def remove(self, request_id: str) -> None:
        """No effect on one that is unknown."""
        self._database.run(PENDING_SAMPLES.delete, request_id)

    def remove_old(self) -> None:
        """Remove the requests whose results are no longer kept."""
        self._database.run(delete_older, int(time.time() - UNFETCHED_S))

    def ids(self, sampler_id: str, clone: int) -> list[str]:
        """The requests of one client, oldest first."""
        samples = self._database.run(PENDING_SAMPLES.all, client_of(sampler_id, clone))
        return [sample.id for sample in samples]

    def next_clone(self, sampler_id: str) -> int:
        """A number that no other client of the sampling session has. Raises NotFound."""
        return self._database.run(count_clone, sampler_id)


def client_of(sampler_id: str, clone: int) -> str:
    return f"{sampler_id}:{clone}"


def insert_once(connection: sqlite3.Connection, sample: UnfetchedSample, client: str) -> None:
    if PENDING_SAMPLES.find(connection, sample.id) is None:
        PENDING_SAMPLES.insert(connection, sample, client)


def count_clone(connection: sqlite3.Connection, sampler_id: str) -> int:
    sampler: SamplingSession | None = SAMPLERS.find(connection, sampler_id)
    num_clones = 1 + (sampler.num_clones if sampler else 0)
    change(connection, SAMPLERS, sampler_id, num_clones=num_clones)
    return num_clones


def delete_older(connection: sqlite3.Connection, created: int) -> None:
    """Delete what was sent before this time."""
    for sample in PENDING_SAMPLES.everything(connection):
        if sample.created < created:
            PENDING_SAMPLES.delete(connection, sample.id)
