"""The tables of training runs. Every function runs in the caller's transaction."""

import dataclasses
import sqlite3
from typing import Any

from inference.errors import NotFound, short
from tuning.runs.types import ClientSession, RunCheckpoint, RunInfo, SamplingSession, UnfetchedSample
from tuning.store.table import Table

SESSIONS = Table("sessions", ClientSession)
RUN_INFOS = Table("training_runs", RunInfo)  # the parent is the session's id
SAMPLERS = Table("samplers", SamplingSession)  # the parent is the session's id
RUN_CHECKPOINTS = Table("run_checkpoints", RunCheckpoint)  # the parent is the run's id
PENDING_SAMPLES = Table("pending_samples", UnfetchedSample)  # the parent names the client
ALL_TABLES: tuple[Table[Any], ...] = (SESSIONS, RUN_INFOS, SAMPLERS, RUN_CHECKPOINTS)
RUN_TABLES = "".join(table.definition for table in ALL_TABLES)
TITLES = {
    SESSIONS.name: "session",
    RUN_INFOS.name: "training run",
    SAMPLERS.name: "sampling session",
    RUN_CHECKPOINTS.name: "checkpoint",
}


def require(connection: sqlite3.Connection, table: Table[Any], id: str) -> Any:
    """The value with this id. Raises NotFound."""
    value = table.find(connection, id)
    if value is None:
        raise NotFound(f"there is no {TITLES[table.name]} {short(id)}")
    return value


def change(connection: sqlite3.Connection, table: Table[Any], id: str, **changes: Any) -> Any:
    """Replace fields of a value; returns the new one. Raises NotFound."""
    value = dataclasses.replace(require(connection, table, id), **changes)
    table.update(connection, value)
    return value


def latest(connection: sqlite3.Connection, table: Table[Any], parent: str | None = None) -> list[Any]:
    """The values of a parent, or of all, newest first."""
    return list(table.everything(connection)) if parent is None else table.all(connection, parent)[::-1]


def mark_corrupted(connection: sqlite3.Connection) -> list[str]:
    """At the start: runs whose state only the former server's trainer had are lost; returns their ids."""
    lost = [run for run in latest(connection, RUN_INFOS) if run.state == "memory" and not run.is_corrupted]
    for run in lost:
        change(connection, RUN_INFOS, run.id, is_corrupted=True)
    return [run.id for run in lost]
