"""The response of GET /info: the model and the limits of requests."""

from flask import request

from api.model_card import model_states
from api.tgi.protocol import InfoResponse
from inference.backend_info import ModelInfo
from inference.models import Models
from settings.groups import ServerSettings

RELEASE = "3.3.7"  # the release of TGI that this dialect is compatible with
ROUTER = "text-generation-router"
CUDA, CPU = "gpu+optimized", "cpu"


def server_info(models: Models, settings: ServerSettings) -> InfoResponse:
    """About the model that the query parameter `model` names, or the default one. Raises UnknownModel."""
    info = models.resolve(request.args.get("model")).backend.info()
    details, max_input = info.details, max_input_tokens(info, settings)
    return InfoResponse(
        model_id=info.id,
        model_sha=details.get("sha"),
        model_pipeline_tag=details.get("pipeline_tag"),
        max_concurrent_requests=settings.max_concurrent_requests,
        max_best_of=settings.max_best_of,
        max_stop_sequences=settings.max_stop_sequences,
        max_input_tokens=max_input,
        max_total_tokens=info.context,
        validation_workers=settings.validation_workers,
        max_client_batch_size=settings.max_client_batch_size,
        router=ROUTER,
        version=RELEASE,
        sha=None,
        docker_label=None,
        max_input_length=max_input,
        model_dtype=details.get("dtype"),
        model_device_type=details.get("device"),
        models=model_states(models),
    )


def max_input_tokens(info: ModelInfo, settings: ServerSettings) -> int | None:
    """The limit of a prompt in tokens: at least one token of the context is left for the answer."""
    if info.context is None:
        return settings.max_input_tokens
    return min(settings.max_input_tokens or info.context, info.context - 1)


def compute_type(info: ModelInfo) -> str:
    """TGI's name for the device type."""
    return CUDA if info.details.get("device") == "cuda" else CPU


def includes_prompt(info: ModelInfo) -> bool:
    """The default of return_full_text on POST /: true for text-generation models and unknown pipelines."""
    return info.details.get("pipeline_tag", "text-generation") == "text-generation"
