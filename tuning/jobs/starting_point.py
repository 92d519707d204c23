"""What a job goes on from: the served model, or what was trained here, an adapter or all weights.

Knows names and rules; copies and serves nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from inference.errors import BadRequest
from inference.finding import join_names
from tuning.jobs.fine_tuned_models import TrainedModel
from tuning.jobs.hyperparameters import adapter_fields, chosen_values
from tuning.types import FINISHED, Job, JobRequest


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """What a job trains.

    full_model: all weights that were trained here; None: those of the served model.

    adapter  that the training goes on from; None: a new one, or none
    """

    full_model: TrainedModel | None = None
    adapter: TrainedModel | None = None


def with_finetuning_type(request: JobRequest, trained: TrainedModel | None) -> JobRequest:
    """The request; to go on from a whole model it trains all weights, unless it describes an adapter."""
    values = request.hyperparameters
    is_open = "finetuning_type" not in chosen_values(values) and not adapter_fields(values)
    if not (trained and trained.is_full and is_open):
        return request
    return replace(request, hyperparameters={**values, "finetuning_type": "full"})


def find_starting_point(
    request: JobRequest, trained: TrainedModel | None, models: Mapping[str, TrainedModel]
) -> StartingPoint:
    """The weights with which a job begins. Raises BadRequest.

    trained: what the request names, among `models`; None: the served model.
    """
    if trained is None:
        return StartingPoint()
    if not trained.is_full:
        return StartingPoint(full_model_under(request, trained, models), adapter=trained)
    if not (is_full(request) or trained.is_final):
        rule = "is a checkpoint that a later one replaces: wait for the end of its job, and name the result"
        raise BadRequest("model", rule, request.model)
    return StartingPoint(trained)


def full_model_under(
    request: JobRequest, adapter: TrainedModel, models: Mapping[str, TrainedModel]
) -> TrainedModel | None:
    """The whole model that an adapter was trained over. Raises BadRequest."""
    if is_full(request):
        rule = "is an adapter: name the base model, or a model that was trained with finetuning_type full"
        raise BadRequest("model", rule, request.model)
    if not adapter.base_model:
        return None
    if adapter.base_model not in models:
        raise BadRequest("model", f"is an adapter over {adapter.base_model}, which is gone", request.model)
    return models[adapter.base_model]


def check_nothing_is_over(name: str, jobs: list[Job], models: Mapping[str, TrainedModel]) -> None:
    """Raises BadRequest if jobs have trained adapters over the whole model `name`, or train some now."""
    over = [job for job in jobs if job.base_model == name]
    adapters = [job.model for job in over if job.fine_tuned_model in models]
    running = [job.id for job in over if job.status not in FINISHED]
    if adapters:
        raise BadRequest("model", f"has adapters over it: delete {join_names(adapters)} first", name)
    if running:
        rule = f"is what {join_names(running)} trains an adapter over: cancel that, or wait for its end"
        raise BadRequest("model", rule, name)


def is_full(request: JobRequest) -> bool:
    """Whether all weights are to be trained."""
    return request.hyperparameters.get("finetuning_type") == "full"
