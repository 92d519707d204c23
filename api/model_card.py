"""The model card that the dialects' model routes return: wire format. inference/models.py has the names."""

from msgspec import Struct

from inference.models import Card, Models

PROVIDER_ID, MODEL_TYPE = "local", "llm"


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


def model_card(card: Card) -> ModelCard:
    metadata: dict[str, str | int] = {} if card.info.context is None else {"context": card.info.context}
    metadata |= card.info.details
    if card.info.embedding_sizes:
        metadata["embedding_dimension"] = card.info.embedding_sizes[-1]
    provider = {"model_type": MODEL_TYPE, "provider_id": PROVIDER_ID, "provider_resource_id": card.info.id}
    return ModelCard(
        identifier=card.name,
        provider_resource_id=card.info.id,
        metadata=metadata,
        custom_metadata={**metadata, **provider},
        llama_model=card.info.id,
        id=card.name,
        created=card.info.created,
        root=card.info.id,
        max_model_len=card.info.context,
    )


def model_cards(models: Models) -> list[ModelCard]:
    """Every served model under each of its names."""
    return [model_card(served.card) for served in models]
