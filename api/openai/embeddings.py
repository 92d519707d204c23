"""/v1/embeddings: one vector per input, as numbers or as base64, the default of OpenAI's client.

The backend computes the vectors.
"""

import base64
import sys
from array import array
from collections.abc import Sequence
from functools import partial

from flask import Response

from api.concurrency_limit import acquire_permit
from api.embeddings import EmbeddingsWriter
from api.openai.errors import InvalidBody, InvalidParameter, error_before_start, unsupported_api
from api.openai.parse import read_request, split_prompts
from api.openai.protocol.embeddings import EmbeddingData, EmbeddingRequest, EmbeddingResponse
from api.openai.reply import make_usage
from api.request_log import make_request_id
from api.response import respond
from inference.backend import Backend, Stream
from inference.errors import NotImplementedHere
from inference.models import Models
from inference.types import Embedding, GenerationRequest


def create_embedding(models: Models) -> Response:
    body = read_request(EmbeddingRequest)
    served = models.resolve(body.model)
    model = served.card.name
    if body.dimensions is not None:
        raise InvalidParameter(f"dimensions is not supported: {model} has a fixed vector size", "dimensions")
    if body.input in ("", []):
        raise InvalidBody("input must be text, token ids, or a list of either, and not empty", "input")
    inputs = split_prompts(body.input, "input")
    limit = served.card.info.context if body.truncate_prompt_tokens == -1 else body.truncate_prompt_tokens
    if limit is not None:
        inputs = [_last_tokens(each, limit, served.backend) for each in inputs]
    render = partial(_render, model=model, as_base64=body.encoding_format == "base64")
    acquire_permit()
    return respond(_submit(inputs, served.backend), EmbeddingsWriter(render, error_before_start), None)


def _submit(inputs: list[str | list[int]], backend: Backend) -> Stream:
    try:
        return backend.embed(inputs)
    except NotImplementedHere:
        raise unsupported_api("Embeddings") from None


def _last_tokens(text: str | list[int], limit: int, backend: Backend) -> list[int]:
    if limit < 1:
        raise InvalidParameter(
            f"truncate_prompt_tokens must be -1, or at least 1, got {limit}.", "truncate_prompt_tokens"
        )
    return [token.id for token in backend.tokenize(GenerationRequest(text)).token_spans][-limit:]


def _render(vectors: Sequence[Embedding], model: str, as_base64: bool) -> EmbeddingResponse:
    data = [
        EmbeddingData(index=i, embedding=_base64_vector(each) if as_base64 else list(each.vector))
        for i, each in enumerate(vectors)
    ]
    usage = make_usage(sum(each.num_tokens for each in vectors), 0)
    return EmbeddingResponse(id=f"embd-{make_request_id(None)}", model=model, data=data, usage=usage)


def _base64_vector(embedding: Embedding) -> str:
    floats = array("f", embedding.vector)
    if sys.byteorder == "big":
        floats.byteswap()
    return base64.b64encode(floats.tobytes()).decode()
