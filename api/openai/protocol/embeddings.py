"""The JSON of /v1/embeddings."""

from typing import Literal

from msgspec import Struct

from api.openai.protocol.completion import Prompt
from api.openai.protocol.errors import ErrorResponse
from api.openai.protocol.generation import UsageInfo
from api.openapi.operation import Operation


class EmbeddingRequest(Struct, kw_only=True):
    """A request to embed texts.

    input                   text, token ids, or a list of at most 2048 of either
    encoding_format         float: a list of numbers; base64: little-endian 32-bit floats
    dimensions              must be null: the model determines the size of the vectors
    truncate_prompt_tokens  keep this many of each input's last tokens; -1: as many as the context holds
    """

    input: Prompt
    model: str | None = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None
    truncate_prompt_tokens: int | None = None


class EmbeddingData(Struct, kw_only=True):
    """One vector: a list of numbers, or little-endian 32-bit floats in base64."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingResponse(Struct, kw_only=True):
    id: str
    object: Literal["list"] = "list"
    model: str
    data: list[EmbeddingData]
    usage: UsageInfo


EMBED = Operation("Embed texts", "", EmbeddingRequest, EmbeddingResponse, error=ErrorResponse)
