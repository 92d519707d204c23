"""Reads the progress file of a trainer, and records its lines as the state, events and checkpoints of a job.

Each line is recorded once: the database holds how far the file was read.
"""

import dataclasses
import math
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from tuning.job_files import PROGRESS_FILE
from tuning.jobs.names import checkpoint_name
from tuning.store.jobs import RunState, add_event, change_job, find_job, read_run, write_run
from tuning.store.schema import CHECKPOINTS, EVENTS
from tuning.types import Checkpoint, Job, JobProgress

MAX_READ_BYTES = 1 << 20
NUM_METRICS = 200  # steps with an event of their own, at least; all steps of a job that has no more
STEP_FIGURES = (
    "step",
    "total_steps",
    "epoch",
    "train_loss",
    "train_mean_token_accuracy",
    "learning_rate",
    "grad_norm",
    "tokens_per_second",
)
CHECKPOINT_FIGURES = ("train_loss", "train_mean_token_accuracy")
VALIDATION_FIGURES = ("valid_loss", "valid_mean_token_accuracy")
OUTCOMES = ("finished", "failed", "paused")

Line = Mapping[str, Any]


def record_new_lines(connection: sqlite3.Connection, job_id: str, folder: Path) -> list[Checkpoint]:
    """Record what the trainer has written since the last call. Returns the checkpoints among it."""
    run = read_run(connection, job_id)
    lines, num_bytes = read_lines(folder / PROGRESS_FILE, run.num_bytes)
    if not lines:
        return []
    checkpoints: list[Checkpoint] = []
    outcome = run.outcome
    for line in lines:
        if line.get("type") in OUTCOMES:
            outcome = line
        elif line.get("type") == "checkpoint":
            checkpoints.append(record_checkpoint(connection, job_id, line))
        elif record := RECORDERS.get(line.get("type", "")):
            record(connection, find_job(connection, job_id), line)
    write_run(connection, job_id, RunState(num_bytes, outcome))
    return checkpoints


def read_lines(path: Path, start: int) -> tuple[list[Line], int]:
    """The complete lines from the byte `start` on, and where the next one begins.

    A trainer that was killed may leave half a line, which the next one continues: such a line is passed over.
    """
    if not path.exists():
        return [], start
    with path.open("rb") as file:
        file.seek(start)
        data = file.read(MAX_READ_BYTES)
    complete = data[: data.rfind(b"\n") + 1]
    lines = [parse_line(line) for line in complete.splitlines()]
    return [line for line in lines if line], start + len(complete)


def read_all_lines(path: Path) -> Iterator[Line]:
    start, end = -1, 0
    while start < end:
        start = end
        lines, end = read_lines(path, start)
        yield from lines


def parse_line(line: bytes) -> Line:
    """Empty for a line that is no JSON object."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def record_started(connection: sqlite3.Connection, job: Job, line: Line) -> None:
    total_steps = int(line.get("total_steps", 0))
    progress = dataclasses.replace(job.progress, total_steps=total_steps)
    trained_tokens = round(line.get("num_trained_tokens", 0) * total_steps / steps_of_epoch(job))
    change_job(connection, job.id, progress=progress, trained_tokens=trained_tokens)


def steps_of_epoch(job: Job) -> int:
    values = job.hyperparameters
    rows_of_step = values["batch_size"] * values["gradient_accumulation_steps"]
    return math.ceil(job.num_examples / rows_of_step)


def record_message(connection: sqlite3.Connection, job: Job, line: Line) -> None:
    """A sentence about the dataset comes from the validation, and from each start of the trainer: once."""
    level, text = line.get("level", "info"), str(line.get("text", ""))
    if any(event.message == text for event in EVENTS.all(connection, job.id)):
        return
    add_event(connection, job.id, text, level if level in ("warn", "error") else "info")


def record_step(connection: sqlite3.Connection, job: Job, line: Line) -> None:
    """A step that a resumed trainer repeats gets no second event."""
    step, total_steps = int(line["step"]), int(line.get("total_steps", 0))
    if step <= job.progress.step:
        return
    progress = JobProgress(
        time=int(line.get("time", time.time())),
        step=step,
        total_steps=total_steps,
        epoch=line.get("epoch", 0.0),
        train_loss=line.get("train_loss"),
        tokens_per_second=line.get("tokens_per_second"),
        eta_s=line.get("eta_s"),
    )
    change_job(connection, job.id, progress=progress)
    if step % max(1, total_steps // NUM_METRICS) == 0 or step == total_steps:
        message = f"Step {step}/{total_steps}: training loss={figure(line.get('train_loss'))}"
        data = {name: line.get(name) for name in STEP_FIGURES}
        add_event(connection, job.id, message, type="metrics", data=data)


def record_evaluation(connection: sqlite3.Connection, job: Job, line: Line) -> None:
    step, total_steps = line.get("step"), job.progress.total_steps
    message = f"Step {step}/{total_steps}: validation loss={figure(line.get('valid_loss'))}"
    data = {"step": step, "total_steps": total_steps, "train_loss": job.progress.train_loss}
    data |= {name: line.get(name) for name in VALIDATION_FIGURES}
    add_event(connection, job.id, message, type="metrics", data=data)


def record_checkpoint(connection: sqlite3.Connection, job_id: str, line: Line) -> Checkpoint:
    """A checkpoint that a resumed trainer saves again replaces the former one."""
    job, step = find_job(connection, job_id), int(line["step"])
    former = [each for each in CHECKPOINTS.all(connection, job_id) if each.step == step]
    metrics = {"step": step} | {name: line.get(name) for name in CHECKPOINT_FIGURES}
    metrics |= {name: line.get(name) for name in VALIDATION_FIGURES}
    metrics |= {f"full_{name}": line.get(name) for name in VALIDATION_FIGURES}
    checkpoint = Checkpoint(
        id=former[0].id if former else f"ftckpt_{secrets.token_hex(12)}",
        job_id=job_id,
        model=checkpoint_name(job.model, step),
        created=int(line.get("time", time.time())),
        step=step,
        epoch=line.get("epoch", 0.0),
        metrics=metrics,
        folder=str(line["folder"]),
    )
    if former:
        CHECKPOINTS.update(connection, checkpoint)
    else:
        CHECKPOINTS.insert(connection, checkpoint, job_id)
        add_event(connection, job_id, f"Checkpoint created at step {step}: {checkpoint.model}")
    return checkpoint


def figure(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else "unknown"


RECORDERS: Mapping[str, Callable[[sqlite3.Connection, Job, Line], None]] = {
    "started": record_started,
    "message": record_message,
    "step": record_step,
    "evaluation": record_evaluation,
}
