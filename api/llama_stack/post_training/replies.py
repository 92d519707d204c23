"""A job as Llama Stack's routes show it. Knows jobs and their checkpoints, and no route."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from api.llama_stack.post_training.parse import NOTES
from api.llama_stack.post_training.protocol import (
    JobArtifacts,
    JobLogs,
    JobStatus,
    TrainingCheckpoint,
    TrainingMetrics,
)
from tuning.types import Checkpoint, Job, JobEvent, Status

STATUSES: Mapping[Status, str] = {
    "validating_files": "scheduled",
    "queued": "scheduled",
    "running": "in_progress",
    "paused": "in_progress",
    "succeeded": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
}


def job_status(job: Job, checkpoints: Sequence[Checkpoint], says_running: bool) -> JobStatus:
    """The state of a job.

    checkpoints   oldest first
    says_running  the first clients know "running" for "in_progress"
    """
    status = STATUSES[job.status]
    return JobStatus(
        job_uuid=job.id,
        status="running" if says_running and status == "in_progress" else status,
        scheduled_at=iso_time(job.created),
        started_at=iso_time(job.started) if job.started is not None else None,
        completed_at=iso_time(job.finished) if job.finished is not None else None,
        resources_allocated=_resources(job),
        checkpoints=_checkpoints(job, checkpoints),
    )


def job_artifacts(job: Job, checkpoints: Sequence[Checkpoint]) -> JobArtifacts:
    return JobArtifacts(job.id, _checkpoints(job, checkpoints))


def job_logs(job: Job, events: Sequence[JobEvent]) -> JobLogs:
    """The log of a job as lines. events: oldest first."""
    lines = [f"{iso_time(event.created)} {event.level.upper()} {event.message}" for event in events]
    if note := _note(job):
        lines.insert(0, f"{iso_time(job.created)} INFO {note}")
    return JobLogs(job.id, lines)


def iso_time(unix_time: int) -> str:
    return datetime.fromtimestamp(unix_time, UTC).isoformat().replace("+00:00", "Z")


def _resources(job: Job) -> dict[str, Any]:
    progress = job.progress
    resources: dict[str, Any] = {
        "steps": progress.total_steps,
        "step": progress.step,
        "train_loss": progress.train_loss,
        "eta_s": progress.eta_s,
    }
    if job.error:
        resources["error"] = job.error.message
    if note := _note(job):
        resources[NOTES] = note
    return resources


def _note(job: Job) -> str:
    return (job.request.metadata or {}).get(NOTES, "")


def _checkpoints(job: Job, checkpoints: Sequence[Checkpoint]) -> list[TrainingCheckpoint]:
    """The checkpoints, then the result if there is one, with the figures of the checkpoint that became it."""
    entries = [_training_checkpoint(checkpoint, checkpoint.model) for checkpoint in checkpoints]
    if job.fine_tuned_model and checkpoints:
        entries.append(_training_checkpoint(_best(job, checkpoints), job.fine_tuned_model))
    return entries


def _best(job: Job, checkpoints: Sequence[Checkpoint]) -> Checkpoint:
    """The last one; with keep_best and a validation set, the one with the lowest loss on it."""
    evaluated = [checkpoint for checkpoint in checkpoints if _valid_loss(checkpoint) is not None]
    if not evaluated or not job.hyperparameters.get("keep_best", True):
        return checkpoints[-1]
    return min(evaluated, key=lambda checkpoint: _valid_loss(checkpoint) or 0.0)


def _valid_loss(checkpoint: Checkpoint) -> float | None:
    return checkpoint.metrics.get("valid_loss")


def _training_checkpoint(checkpoint: Checkpoint, name: str) -> TrainingCheckpoint:
    epoch = math.ceil(checkpoint.epoch)
    return TrainingCheckpoint(
        identifier=name,
        created_at=iso_time(checkpoint.created),
        epoch=epoch,
        post_training_job_id=checkpoint.job_id,
        path=name,
        training_metrics=_metrics(checkpoint.metrics, epoch),
    )


def _metrics(metrics: Mapping[str, float | None], epoch: int) -> TrainingMetrics | None:
    """All four figures, or None: clients require all of them."""
    train_loss, valid_loss = metrics.get("train_loss"), metrics.get("valid_loss")
    if train_loss is None or valid_loss is None:
        return None
    return TrainingMetrics(epoch, train_loss, valid_loss, math.exp(min(valid_loss, 700)))
