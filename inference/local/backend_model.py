"""BackendModel: the facts of a model that requests and answers depend on, such as context and end tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inference.model.load.sentence_transformers import GENERATOR, EmbeddingMethod


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendModel:
    """The model as its requests and answers depend on it.

    id                  its name for clients
    context             tokens of prompt and answer together; a longer answer is shortened to fit
    vocab               width of the logits; ids that the tokenizer lacks have no text
    eos_token_ids       its end tokens
    is_encoder_decoder  the prompt goes to the encoder and takes no context from the answer
    embedding_sizes     see ModelInfo
    embedding_method    how embeddings are made of texts
    details             further properties for ModelInfo
    """

    id: str
    tokenizer: Any
    context: int
    vocab: int
    eos_token_ids: frozenset[int]
    is_encoder_decoder: bool = False
    embedding_sizes: Sequence[int] = ()
    embedding_method: EmbeddingMethod = GENERATOR
    details: Mapping[str, str] = field(default_factory=dict)
