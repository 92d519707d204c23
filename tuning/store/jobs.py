"""Reads and changes jobs with their events. Every function runs in the caller's transaction."""

import dataclasses
import json
import secrets
import sqlite3
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from inference.errors import BadRequest, NotFound, short
from tuning.store.schema import CHECKPOINTS, EVENTS, JOBS
from tuning.types import FINISHED, Checkpoint, EventType, Job, JobEvent, Level, Status


class UnknownJob(NotFound):
    def __init__(self, id: str) -> None:
        self.id = id
        super().__init__(f"Could not find fine tune: {short(id)[1:-1]}")


class RunState(NamedTuple):
    """How far a job's progress file was read.

    num_bytes  of the file that the job's state and events contain
    outcome    the last line that ends a run: finished, failed or paused; None: there is none
    """

    num_bytes: int = 0
    outcome: Mapping[str, Any] | None = None


def insert_job(connection: sqlite3.Connection, job: Job) -> None:
    """Raises BadRequest if the id exists."""
    refuse_existing(connection, job.id)
    JOBS.insert(connection, job)
    add_event(connection, job.id, f"Created fine-tuning job: {job.id}")
    add_event(connection, job.id, "Validating training file")


def refuse_existing(connection: sqlite3.Connection, job_id: str) -> None:
    if JOBS.find(connection, job_id):
        raise BadRequest("", f"Job '{job_id}' already exists")


def find_job(connection: sqlite3.Connection, id: str) -> Job:
    """Raises UnknownJob."""
    job = JOBS.find(connection, id)
    if job is None:
        raise UnknownJob(id)
    return job


def change_job(
    connection: sqlite3.Connection, id: str, message: str = "", level: Level = "info", **changes: Any
) -> Job:
    """Replace fields of a job, and add an event with the message. Raises UnknownJob."""
    job = dataclasses.replace(find_job(connection, id), **changes)
    if job.status in FINISHED and job.finished is None:
        job = dataclasses.replace(job, finished=int(time.time()))
    JOBS.update(connection, job)
    if message:
        add_event(connection, id, message, level)
    return job


def add_event(
    connection: sqlite3.Connection,
    job_id: str,
    message: str,
    level: Level = "info",
    type: EventType = "message",
    data: Mapping[str, Any] | None = None,
) -> None:
    id = f"ftevent-{secrets.token_hex(12)}"
    event = JobEvent(id=id, created=int(time.time()), level=level, message=message, type=type, data=data)
    EVENTS.insert(connection, event, job_id)


def jobs_with_status(connection: sqlite3.Connection, *statuses: Status) -> list[Job]:
    """Oldest first."""
    return list(JOBS.select(connection, "status", statuses))


def job_that_needs(connection: sqlite3.Connection, file_id: str) -> str:
    """The id of an unfinished job that uses the file; empty if there is none."""
    for job in JOBS.all(connection):
        if job.status not in FINISHED and file_id in (job.request.training, job.request.validation):
            return job.id
    return ""


def checkpoints_of(connection: sqlite3.Connection, job_id: str) -> list[Checkpoint]:
    """Oldest first."""
    return CHECKPOINTS.all(connection, job_id)


def read_run(connection: sqlite3.Connection, job_id: str) -> RunState:
    row = connection.execute("SELECT num_bytes, outcome FROM runs WHERE job = ?", (job_id,)).fetchone()
    return RunState(row[0], json.loads(row[1])) if row else RunState()


def write_run(connection: sqlite3.Connection, job_id: str, run: RunState) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO runs (job, num_bytes, outcome) VALUES (?, ?, ?)",
        (job_id, run.num_bytes, json.dumps(run.outcome)),
    )
