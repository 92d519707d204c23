"""The tables of files, datasets and jobs with their events and checkpoints, each value as JSON text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuning.store.table import Table
from tuning.types import Checkpoint, Job, JobEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """An uploaded file, or the metrics of a job. expires: None: never."""

    id: str
    filename: str
    purpose: str
    num_bytes: int
    created: int
    expires: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredDataset:
    """A dataset under the name that a client gave it.

    source    where its rows came from, as the client sent it; without the rows themselves
    content   name of the file with its rows, of which it has `num_bytes`
    """

    id: str
    purpose: str
    source: Mapping[str, Any]
    metadata: Mapping[str, Any]
    created: int
    content: str
    num_rows: int
    num_bytes: int


FILES = Table("files", File)
DATASETS = Table("datasets", RegisteredDataset)
JOBS = Table("jobs", Job)
EVENTS = Table("events", JobEvent)  # the parent is the job's id
CHECKPOINTS = Table("checkpoints", Checkpoint)  # the parent is the job's id
ALL_TABLES: tuple[Table[Any], ...] = (FILES, DATASETS, JOBS, EVENTS, CHECKPOINTS)

# How far a job's progress file was read, and how its last run ended: see RunState.
RUNS = "CREATE TABLE runs (job TEXT PRIMARY KEY, num_bytes INTEGER NOT NULL, outcome TEXT NOT NULL);"
JOB_TABLES = "".join(table.definition for table in ALL_TABLES) + RUNS
