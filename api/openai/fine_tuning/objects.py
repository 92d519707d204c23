"""The JSON of a job, of its events and of its checkpoints."""

from typing import Any

from msgspec import to_builtins

from api.openai.fine_tuning.protocol import CheckpointObject, EventObject, JobErrorObject, JobObject
from tuning.jobs.hyperparameters import AUTO, effective_values, public_name
from tuning.jobs.names import ORGANIZATION
from tuning.jobs.prepared_job import PreparedJob
from tuning.types import Checkpoint, Job, JobEvent

OPENAI_HYPERPARAMETERS = ("n_epochs", "batch_size", "learning_rate_multiplier")
PUBLIC_SPEC_FIELDS = ("method", "hyperparameters", "seed")  # the others may name folders of this machine


def job_object(job: Job) -> JobObject:
    hyperparameters = {name: job.hyperparameters.get(name, AUTO) for name in OPENAI_HYPERPARAMETERS}
    return JobObject(
        id=job.id,
        model=job.request.model,
        created_at=job.created,
        finished_at=job.finished,
        fine_tuned_model=job.fine_tuned_model,
        organization_id=ORGANIZATION,
        result_files=list(job.result_files),
        status=job.status,
        training_file=job.request.training,
        validation_file=job.request.validation or None,
        trained_tokens=job.trained_tokens,
        estimated_finish=estimated_finish(job),
        seed=job.seed,
        hyperparameters=hyperparameters,
        method=method_object(job, hyperparameters),
        metadata=dict(job.request.metadata) if job.request.metadata is not None else None,
        integrations=[],
        error=JobErrorObject(job.error.code, job.error.message, job.error.param) if job.error else None,
    )


def method_object(job: Job, hyperparameters: dict[str, Any]) -> dict[str, Any]:
    """All hyperparameters that are known, the server's own among them."""
    values = {public_name(name): job.hyperparameters[name] for name in job.hyperparameters}
    return {"type": job.request.method, job.request.method: {"hyperparameters": hyperparameters | values}}


def estimated_finish(job: Job) -> int | None:
    """Unix time; None unless the job runs and its speed is known."""
    if job.status != "running" or job.progress.eta_s is None:
        return None
    return round(job.progress.time + job.progress.eta_s)


def event_object(event: JobEvent) -> EventObject:
    return EventObject(
        id=event.id,
        created_at=event.created,
        level=event.level,
        message=event.message,
        type=event.type,
        data=dict(event.data) if event.data is not None else None,
    )


def checkpoint_object(checkpoint: Checkpoint) -> CheckpointObject:
    return CheckpointObject(
        id=checkpoint.id,
        created_at=checkpoint.created,
        fine_tuned_model_checkpoint=checkpoint.model,
        fine_tuning_job_id=checkpoint.job_id,
        step_number=checkpoint.step,
        metrics=dict(checkpoint.metrics),
    )


def dry_run_object(prepared: PreparedJob) -> dict[str, Any]:
    """What would be trained, and how."""
    values = to_builtins(prepared)
    spec = values["spec"] and {name: values["spec"][name] for name in PUBLIC_SPEC_FIELDS}
    if prepared.spec:
        spec["hyperparameters"] = effective_values(prepared.spec.hyperparameters)
    return {"object": "fine_tuning.job.dry_run", **values, "spec": spec}
