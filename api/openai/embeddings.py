"""/v1/embeddings: one vector per input, as numbers or as base64, the default of OpenAI's client.

The backend computes the vectors.
"""

import base64
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from flask import Response, request
from msgspec import Raw

from api.embeddings import EmbeddingsWriter, check_size, make_vector
from api.hooks.concurrency_limit import acquire_permit
from api.hooks.request_log import make_request_id
from api.openai.errors import InvalidBody, InvalidParameter, error_before_start, unsupported_api
from api.openai.protocol.embeddings import EmbeddingData, EmbeddingRequest, EmbeddingResponse, InputText
from api.openai.reply import make_usage
from api.openai.requests.messages import parse_messages
from api.openai.requests.parse import make_template, read_request, split_prompts
from api.response import respond
from api.wsgi_environ import BATCH_CREATOR
from inference.backend import Backend, Stream
from inference.errors import NotImplementedHere
from inference.events import Embedding
from inference.models import Models
from inference.served import Served
from inference.types import GenerationRequest

# vLLM's names of number types and byte orders → the codes of struct
NUMBER_CODES = {"float32": "f", "float16": "e"}
BYTE_ORDERS = {"little": "<", "big": ">", "native": "="}
LARGEST = {"f": 3.4028234663852886e38, "e": 65504.0}

Inputs = list[str | list[int]]


@dataclass(frozen=True, slots=True)
class VectorFormat:
    """How a response writes a vector.

    size       the first numbers to keep; None: all
    normalize  scale it to length 1
    layout     byte order and number type for base64, in the codes of struct; None: a list of numbers
    """

    size: int | None
    normalize: bool
    layout: tuple[str, str] | None

    def write(self, embedding: Embedding) -> Sequence[float] | str:
        vector = make_vector(embedding, self.size, self.normalize)
        if self.layout is None:
            return vector
        order, number = self.layout
        if not self.normalize:
            limit = LARGEST[number]
            vector = tuple([min(max(value, -limit), limit) for value in vector])
        return base64.b64encode(struct.pack(f"{order}{len(vector)}{number}", *vector)).decode()


def create_embedding(models: Models) -> Response:
    body = read_request(EmbeddingRequest)
    served = models.resolve(body.model)
    check_size(body.dimensions, "dimensions", served.card.info)
    vector_format = _vector_format(body)
    inputs = _inputs(body, served)

    def render_item(index: int, embedding: Embedding) -> EmbeddingData:
        return EmbeddingData(index=index, embedding=vector_format.write(embedding))

    def render(items: list[Raw], num_tokens: int) -> EmbeddingResponse:
        return EmbeddingResponse(
            id=f"embd-{make_request_id(None)}",
            model=served.card.name,
            data=cast(list[EmbeddingData], items),  # already JSON
            usage=make_usage(num_tokens, 0),
        )

    acquire_permit()
    writer = EmbeddingsWriter(render_item, render, error_before_start)
    return respond(_submit(inputs, served), writer, None, len(inputs))


def _submit(inputs: Inputs, served: Served) -> Stream:
    try:
        return served.embed(inputs, in_background=BATCH_CREATOR in request.environ)
    except NotImplementedHere as error:
        raise unsupported_api("Embeddings", error.message) from None


def _vector_format(body: EmbeddingRequest) -> VectorFormat:
    if None not in (body.normalize, body.use_activation) and body.normalize != body.use_activation:
        raise InvalidBody("normalize and use_activation are two names of one option, and differ", "normalize")
    number = _look_up(NUMBER_CODES, "embed_dtype", body.embed_dtype or "float32")
    order = _look_up(BYTE_ORDERS, "endianness", body.endianness or "little")
    return VectorFormat(
        size=body.dimensions,
        normalize=False not in (body.normalize, body.use_activation),
        layout=(order, number) if body.encoding_format == "base64" else None,
    )


def _look_up(codes: Mapping[str, str], field: str, name: str) -> str:
    if name not in codes:
        raise InvalidParameter(f"{field} must be one of {', '.join(codes)}, got {name[:100]!r}.", field)
    return codes[name]


def _inputs(body: EmbeddingRequest, served: Served) -> Inputs:
    """The texts to embed, or their token ids if the request says how to tokenize them."""
    if (body.input is None) == (body.messages is None):
        raise InvalidBody("exactly one of input and messages is required", "input")
    backend, limit = served.backend, _truncation(body, served)
    if body.messages is not None:
        return [_truncate(_token_ids(_conversation(body), backend), limit, body)]
    inputs = _split_inputs(body)
    if not limit and body.add_special_tokens is None:
        return inputs

    def token_ids(text: str) -> list[int]:
        return _token_ids(GenerationRequest(text, add_special_tokens=body.add_special_tokens), backend)

    ids = [token_ids(each) if isinstance(each, str) else each for each in inputs]
    return [_truncate(each, limit, body) for each in ids]


def _truncation(body: EmbeddingRequest, served: Served) -> int:
    """The number of tokens to keep of each input; 0: all."""
    limit = body.truncate_prompt_tokens
    if limit is None:
        return 0
    if limit < -1 or limit == 0:
        raise InvalidParameter(
            f"truncate_prompt_tokens must be -1, or at least 1, got {limit}.", "truncate_prompt_tokens"
        )
    return (served.card.info.context or 0) if limit == -1 else limit


def _truncate(token_ids: Sequence[int], limit: int, body: EmbeddingRequest) -> list[int]:
    """The tokens that _truncation leaves."""
    return list(token_ids[: limit or None] if body.truncation_side == "right" else token_ids[-limit:])


def _split_inputs(body: EmbeddingRequest) -> Inputs:
    value = body.input
    if not value:
        raise InvalidBody("input must be text, token ids, or a list of either, and not empty", "input")
    if isinstance(value, str):
        return [value]
    items = value if isinstance(value, list) else [value]
    return split_prompts([each.text if isinstance(each, InputText) else each for each in items], "input")


def _conversation(body: EmbeddingRequest) -> GenerationRequest:
    if body.add_generation_prompt and body.continue_final_message:
        raise InvalidBody("Cannot set both `continue_final_message` and `add_generation_prompt` to True.")
    return GenerationRequest(
        parse_messages(body.messages or []),
        template=make_template(
            bool(body.add_generation_prompt), body.continue_final_message, body.chat_template_kwargs
        ),
        add_special_tokens=body.add_special_tokens,
    )


def _token_ids(request: GenerationRequest, backend: Backend) -> list[int]:
    return [token.id for token in backend.tokenize(request).token_spans]
