"""The tables of files, datasets and jobs with their events and checkpoints, each value as JSON text."""

from typing import Any

from tuning.store.table import Table
from tuning.types import Checkpoint, File, Job, JobEvent, RegisteredDataset

FILES = Table("files", File)
DATASETS = Table("datasets", RegisteredDataset)
JOBS = Table("jobs", Job)
EVENTS = Table("events", JobEvent)  # the parent is the job's id
CHECKPOINTS = Table("checkpoints", Checkpoint)  # the parent is the job's id
ALL_TABLES: tuple[Table[Any], ...] = (FILES, DATASETS, JOBS, EVENTS, CHECKPOINTS)

# How far a job's progress file was read, and how its last run ended: see RunState.
RUNS = "CREATE TABLE runs (job TEXT PRIMARY KEY, num_bytes INTEGER NOT NULL, outcome TEXT NOT NULL);"
JOB_TABLES = "".join(table.definition for table in ALL_TABLES) + RUNS
