"""Which names mean the served model, and how it is shown to clients of any kind, OpenAI's among them."""

from msgspec import Struct

from api.settings import AppSettings
from inference.types import ModelInfo

LONGEST = 200  # characters


class Card(Struct, kw_only=True):
    """The model under one of its names: a superset of what each client requires."""

    identifier: str
    provider_resource_id: str
    provider_id: str = "local"
    type: str = "model"
    model_type: str = "llm"
    metadata: dict[str, str | int]
    llama_model: str  # required up to 0.0.50
    id: str  # this and what follows: OpenAI's and vLLM's clients
    object: str = "model"
    created: int
    owned_by: str = "local"
    root: str
    parent: str | None = None
    max_model_len: int
    permission: list[str] = []


def known(name: str, info: ModelInfo, settings: AppSettings) -> bool:
    """The model's own id, the last part of it, or another name that the settings give it."""
    return name in (info.id, info.id.rpartition("/")[2], *settings.model_aliases)


def cards(info: ModelInfo, settings: AppSettings) -> list[Card]:
    return [card(name, info) for name in dict.fromkeys((info.id, *settings.model_aliases))]


def card(name: str, info: ModelInfo) -> Card:
    return Card(
        identifier=name,
        provider_resource_id=info.id,
        metadata={"context": info.context, **info.details},
        llama_model=info.id,
        id=name,
        created=info.created,
        root=info.id,
        max_model_len=info.context,
    )


def shown(name: str) -> str:
    """A name that a client sent, as an error repeats it: never a page of it."""
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}…"
