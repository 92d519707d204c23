"""Embeddings: one vector for each input, as numbers or as their bytes in base64.

OpenAI's client asks for base64. How hidden states become a vector is the backend's.
"""

import base64
import sys
from array import array
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from flask import Response
from msgspec import Struct

from api.access import request_id
from api.openai.bodies import Prompt
from api.openai.errors import Refused, WrongBody, failed, unsupported
from api.openai.models import served
from api.openai.reading import read
from api.openai.requests import prompts
from api.openai.usage import usage
from api.settings import AppSettings
from api.stream import answer
from api.vectors import VectorsWriter
from inference.backend import Backend, Stream
from inference.errors import NotImplementedHere
from inference.types import Embedding, GenerationRequest


class EmbeddingBody(Struct, kw_only=True):
    """A request for vectors.

    input                   text, token ids, or a list of either; at most 2048
    encoding_format         numbers, or base64 of little-endian 32-bit floats
    dimensions              must be unset: vectors are as wide as the model
    truncate_prompt_tokens  keep each input's last so many tokens; -1: as many as the context holds
    """

    input: Prompt
    model: str | None = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None
    truncate_prompt_tokens: int | None = None


def embeddings(backend: Backend, settings: AppSettings) -> Response:
    body = read(EmbeddingBody)
    info = backend.info()
    model = served(body.model, info, settings)
    if body.dimensions is not None:
        raise Refused(f"dimensions cannot be chosen: {model} has vectors of one width", "dimensions")
    if body.input in ("", []):
        raise WrongBody("input must be text, token ids, or a list of either, and not empty", "input")
    inputs = prompts(body.input, "input")
    most = info.context if body.truncate_prompt_tokens == -1 else body.truncate_prompt_tokens
    if most is not None:
        inputs = [_last(each, most, backend) for each in inputs]
    told = partial(_told, model=model, packed=body.encoding_format == "base64")
    return answer(_submitted(inputs, backend), VectorsWriter(told, failed), None)


def _submitted(inputs: list[str | list[int]], backend: Backend) -> Stream:
    try:
        return backend.embed(inputs)
    except NotImplementedHere:
        raise unsupported("Embeddings") from None


def _last(text: str | list[int], most: int, backend: Backend) -> list[int]:
    if most < 1:
        raise Refused(
            f"truncate_prompt_tokens must be -1, or at least 1, got {most}.", "truncate_prompt_tokens"
        )
    return [piece.id for piece in backend.tokenize(GenerationRequest(text)).pieces][-most:]


def _told(found: Sequence[Embedding], model: str, packed: bool) -> dict[str, Any]:
    return {
        "id": f"embd-{request_id(None)}",
        "object": "list",
        "model": model,
        "data": [
            {"object": "embedding", "index": i, "embedding": _packed(each) if packed else each.vector}
            for i, each in enumerate(found)
        ],
        "usage": usage(sum(each.tokens for each in found), 0),
    }


def _packed(embedding: Embedding) -> str:
    floats = array("f", embedding.vector)
    if sys.byteorder == "big":
        floats.byteswap()
    return base64.b64encode(floats.tobytes()).decode()
