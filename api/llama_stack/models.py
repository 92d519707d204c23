"""Which names mean the served model, and how it is shown to clients of any kind, OpenAI's among them."""

from typing import Any

from api.llama_stack.bodies import Body
from api.llama_stack.errors import UnknownModel
from api.settings import AppSettings
from inference.errors import BadRequest
from inference.types import ModelInfo


def check(body: Body, info: ModelInfo, settings: AppSettings) -> None:
    """Raises where the body names no model, or one that is not served."""
    name = body.model_id or body.model
    if not name:
        raise BadRequest("model_id", f"is required: this server has {info.id!r}")
    if not known(name, info, settings):
        raise UnknownModel(name, info.id)


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
