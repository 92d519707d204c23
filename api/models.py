"""Which names mean the served model, and how it is shown to clients of any kind, OpenAI's among them."""

from typing import Any

from api.settings import AppSettings
from inference.types import ModelInfo


def known(name: str, info: ModelInfo, settings: AppSettings) -> bool:
    """The model's own id, the last part of it, or another name that the settings give it."""
    return name in (info.id, info.id.rpartition("/")[2], *settings.model_aliases)


def cards(info: ModelInfo, settings: AppSettings) -> list[dict[str, Any]]:
    return [card(name, info) for name in dict.fromkeys((info.id, *settings.model_aliases))]


def card(name: str, info: ModelInfo) -> dict[str, Any]:
    """The model under one of its names: a superset of what each client requires."""
    return {
        "identifier": name,
        "provider_resource_id": info.id,
        "provider_id": "local",
        "type": "model",
        "model_type": "llm",
        "metadata": {"context": info.context, **info.details},
        "llama_model": info.id,  # required up to 0.0.50
        "id": name,  # this and what follows: OpenAI's and vLLM's clients
        "object": "model",
        "created": info.created,
        "owned_by": "local",
        "root": info.id,
        "parent": None,
        "max_model_len": info.context,
        "permission": [],
    }
