"""The JSON of /v1/fine_tuning/jobs."""

from typing import Any, Literal

from msgspec import Struct

from api.openai.protocol.errors import ErrorResponse
from api.openai.stored import PAGE_PARAMETERS
from api.openapi.operation import Operation


class CreateJob(Struct):
    """A fine-tuning job to create.

    model            the served model, or a fine-tuned one to go on from
    training_file    id of a file with the purpose fine-tune, or of a dataset
    suffix           up to 64 letters, digits and ._- in the new model's name
    metadata         up to 16 pairs of text
    method           {"type": "supervised", "supervised": {"hyperparameters": {…}}}; or dpo, orpo, kto
    hyperparameters  n_epochs, batch_size, learning_rate_multiplier and others, numbers or "auto"
    dry_run          validate the files and show what would be trained; nothing is created
    """

    model: str
    training_file: str
    validation_file: str | None = None
    suffix: str | None = None
    seed: int | None = None
    metadata: dict[str, Any] | None = None
    method: dict[str, Any] | None = None
    hyperparameters: dict[str, Any] | None = None
    integrations: list[Any] | None = None
    dry_run: bool | None = None


class JobErrorObject(Struct):
    code: str
    message: str
    param: str | None


class JobObject(Struct, kw_only=True):
    id: str
    object: Literal["fine_tuning.job"] = "fine_tuning.job"
    model: str
    created_at: int
    finished_at: int | None
    fine_tuned_model: str | None
    organization_id: str
    result_files: list[str]
    status: str
    training_file: str
    validation_file: str | None
    trained_tokens: int | None
    estimated_finish: int | None
    seed: int
    hyperparameters: dict[str, Any]
    method: dict[str, Any]
    metadata: dict[str, str] | None
    integrations: list[Any]
    error: JobErrorObject | None


class EventObject(Struct, kw_only=True):
    object: Literal["fine_tuning.job.event"] = "fine_tuning.job.event"
    id: str
    created_at: int
    level: str
    message: str
    type: str
    data: dict[str, Any] | None


class CheckpointObject(Struct, kw_only=True):
    object: Literal["fine_tuning.job.checkpoint"] = "fine_tuning.job.checkpoint"
    id: str
    created_at: int
    fine_tuned_model_checkpoint: str
    fine_tuning_job_id: str
    step_number: int
    metrics: dict[str, float | None]


def _operation(summary: str, description: str = "", **fields: Any) -> Operation:
    return Operation(summary, description, error=ErrorResponse, **fields)


def _page(what: str, default_limit: int) -> dict[str, str]:
    limit = f"{what} of a page, 1 to 100; {default_limit} by default"
    return {"after": PAGE_PARAMETERS["after"], "limit": limit}


CREATE = _operation("Create a fine-tuning job", body=CreateJob, response=JobObject)
LIST = _operation(
    "List the fine-tuning jobs",
    query=_page("jobs", 20) | {"metadata[key]": "list the jobs with this value of the key in their metadata"},
)
GET = _operation("Show a fine-tuning job", response=JobObject)
CANCEL = _operation("End a fine-tuning job", "Its checkpoints stay.", response=JobObject)
PAUSE = _operation(
    "Pause a fine-tuning job", "It is paused once its state is saved after a step.", response=JobObject
)
RESUME = _operation("Queue a paused fine-tuning job", response=JobObject)
EVENTS = _operation("List the events of a fine-tuning job", query=_page("events", 20))
CHECKPOINTS = _operation("List the checkpoints of a fine-tuning job", query=_page("checkpoints", 10))
