"""The names of the served model, and the model cards that the dialects' model routes return."""

from msgspec import Struct

from inference.types import ModelInfo
from settings.groups import ServerSettings

MAX_SHOWN_CHARS = 200


class ModelCard(Struct, kw_only=True):
    """The model under one of its names, with every field that a supported client requires."""

    identifier: str
    provider_resource_id: str
    provider_id: str = "local"
    type: str = "model"
    model_type: str = "llm"
    metadata: dict[str, str | int]
    llama_model: str  # Llama Stack clients up to 0.0.50 require it
    id: str  # from here on: read by clients of OpenAI and vLLM
    object: str = "model"
    created: int
    owned_by: str = "local"
    root: str
    parent: str | None = None
    max_model_len: int
    permission: list[str] = []


def is_served_name(name: str, info: ModelInfo, settings: ServerSettings) -> bool:
    """Whether `name` is the model's id, the last segment of the id, or one of settings.served_names."""
    return name in (info.id, info.id.rpartition("/")[2], *settings.served_names)


def model_cards(info: ModelInfo, settings: ServerSettings) -> list[ModelCard]:
    return [model_card(name, info) for name in dict.fromkeys((info.id, *settings.served_names))]


def model_card(name: str, info: ModelInfo) -> ModelCard:
    return ModelCard(
        identifier=name,
        provider_resource_id=info.id,
        metadata={"context": info.context, **info.details},
        llama_model=info.id,
        id=name,
        created=info.created,
        root=info.id,
        max_model_len=info.context,
    )


def shorten_name(name: str) -> str:
    """The model name of a request, cut to MAX_SHOWN_CHARS characters for an error message."""
    return name if len(name) <= MAX_SHOWN_CHARS else f"{name[:MAX_SHOWN_CHARS]}…"
