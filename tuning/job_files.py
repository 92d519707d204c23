"""The files in a job's folder by which the server and the job's programs talk.

Knows their names and how a value is written; the values are those of jobs/ and trainer/.
"""

import os
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from inference.struct_types import ready

DRAFT_FILE = "draft.json"  # a Draft, which the server writes for the program that prepares the job
PREPARED_FILE = "prepared.json"  # a PreparedJob, which that program writes
SPEC_FILE = "job.json"  # a JobSpec, which the server writes for the trainer
PROGRESS_FILE = "progress.jsonl"  # lines of the trainer, which the server follows

Value = TypeVar("Value")


def read_value(path: Path, type: type[Value]) -> Value:
    return msgspec.json.decode(path.read_bytes(), type=ready(type))


def write_value(path: Path, value: Any) -> None:
    """Write JSON to a file that is complete whenever it exists."""
    partial = path.with_name(f".{path.name}")
    with partial.open("wb") as file:
        file.write(msgspec.json.encode(value))
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
