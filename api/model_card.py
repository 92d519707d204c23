"""The model card that the dialects' model routes return: wire format. inference/models.py has the names."""

from msgspec import Struct

from inference.backend_info import ModelInfo, ModelStatus
from inference.models import Models
from inference.served import Card

PROVIDER_ID, MODEL_TYPE = "local", "llm"


class CardStatus(Struct, omit_defaults=True):
    """Whether the model is in memory, as llama.cpp's router says it.

    detail  how far its load is, or why it failed; left out if nothing is known
    """

    value: ModelStatus
    detail: str = ""


class ModelState(Struct):
    """A served model, and whether it is in memory."""

    model: str
    status: CardStatus


class ModelCard(Struct, kw_only=True):
    """The model under one of its names, with every field that a supported client requires."""

    identifier: str
    provider_resource_id: str
    provider_id: str = PROVIDER_ID
    type: str = "model"
    model_type: str = MODEL_TYPE
    metadata: dict[str, str | int]
    custom_metadata: dict[str, str | int]  # the only place where Llama Stack's clients 0.7 look
    llama_model: str  # Llama Stack clients up to 0.0.50 require it
    id: str  # from here on: read by clients of OpenAI and vLLM
    object: str = "model"
    created: int
    owned_by: str = PROVIDER_ID
    root: str
    parent: str | None = None
    max_model_len: int | None
    permission: list[str] = []
    status: CardStatus


def model_card(card: Card) -> ModelCard:
    """A fine-tuned model has itself as its root and its base model as its parent, also in the metadata."""
    root = card.adapter.name if card.adapter else card.info.id
    provider = {"model_type": MODEL_TYPE, "provider_id": PROVIDER_ID, "provider_resource_id": root}
    metadata = _metadata(card)
    return ModelCard(
        identifier=card.name,
        provider_resource_id=root,
        metadata=metadata,
        custom_metadata={**metadata, **provider},
        llama_model=card.info.id,
        id=card.name,
        created=card.adapter.created if card.adapter else card.info.created,
        root=root,
        parent=card.parent,
        max_model_len=card.info.context,
        status=card_status(card.info),
    )


def card_status(info: ModelInfo) -> CardStatus:
    return CardStatus(info.status, info.status_detail)


def model_states(models: Models) -> list[ModelState]:
    """The state of every served model, each once."""
    return [ModelState(info.id, card_status(info)) for info in (each.info() for each in models.backends)]


def _metadata(card: Card) -> dict[str, str | int]:
    metadata: dict[str, str | int] = {} if card.info.context is None else {"context": card.info.context}
    metadata |= card.info.details
    if card.parent:
        metadata["parent"] = card.parent
    if card.adapter:
        return metadata | ({"lora_rank": card.adapter.rank} if card.adapter.rank else {})
    if card.info.embedding_sizes:
        metadata["embedding_dimension"] = card.info.embedding_sizes[-1]
    return metadata


def model_cards(models: Models) -> list[ModelCard]:
    """Every served model under each of its names, and every adapter."""
    return [model_card(served.card) for served in models]
