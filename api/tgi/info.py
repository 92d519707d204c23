"""What TGI tells of a server: the model, its limits, whether it is well."""

from api.settings import AppSettings
from api.tgi.shapes import Info
from inference.types import ModelInfo

RELEASE = "3.3.7"  # the release of TGI whose routes and shapes these are
ROUTER = "text-generation-router"
CUDA, CPU = "gpu+optimized", "cpu"


def told(info: ModelInfo, settings: AppSettings) -> Info:
    details, max_input = info.details, most_input(info, settings)
    return Info(
        model_id=info.id,
        model_sha=details.get("sha"),
        model_pipeline_tag=details.get("pipeline_tag"),
        max_concurrent_requests=settings.max_concurrent,
        max_best_of=settings.max_best_of,
        max_stop_sequences=settings.max_stop_sequences,
        max_input_tokens=max_input,
        max_total_tokens=info.context,
        validation_workers=settings.validation_workers,
        max_client_batch_size=settings.max_client_batch,
        router=ROUTER,
        version=RELEASE,
        sha=None,
        docker_label=None,
        max_input_length=max_input,
        model_dtype=details.get("dtype"),
        model_device_type=details.get("device"),
    )


def most_input(info: ModelInfo, settings: AppSettings) -> int:
    """Tokens that a prompt may have: an answer is at least one."""
    return settings.max_input_tokens or info.context - 1


def compute_type(info: ModelInfo) -> str:
    """What computes, as TGI calls it."""
    return CUDA if info.details.get("device") == "cuda" else CPU


def full_text(info: ModelInfo) -> bool:
    """Whether POST / begins an answer with the prompt where a request does not say: where the model goes on
    with its prompt, or nobody knows."""
    return info.details.get("pipeline_tag", "text-generation") == "text-generation"
