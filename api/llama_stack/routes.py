"""The inference routes of a protocol version: completion, chat completion, batches of both, and embeddings.

Knows what each route accepts and returns. parse.py converts bodies, writers.py builds responses.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from flask import Blueprint, Response, request
from msgspec import Raw

from api.body.json_body import read_struct
from api.embeddings import EmbeddingsWriter, check_size, make_vector
from api.hooks.concurrency_limit import acquire_permit
from api.llama_stack import parse
from api.llama_stack.errors import error_before_start
from api.llama_stack.messages import parse_content
from api.llama_stack.protocol.errors import LlamaStackErrorResponse
from api.llama_stack.protocol.inference import (
    BatchChatRequest,
    BatchChatResponse,
    BatchCompletionRequest,
    BatchCompletionResponse,
    EmbeddingsRequest,
    EmbeddingsResponse,
    InferenceRequest,
    LlamaStackChatRequest,
    LlamaStackChatResponse,
    LlamaStackCompletionRequest,
    LlamaStackCompletionResponse,
)
from api.llama_stack.versions import ProtocolVersion, choose_framing
from api.llama_stack.writers import BatchWriter, ChatReplyWriter, CompletionReplyWriter
from api.merged_stream import submit_all
from api.openapi.operation import Operation, attach_operation
from api.response import NDJSON, SSE, respond
from inference.content import content_text
from inference.errors import BadRequest
from inference.events import Embedding
from inference.models import Models
from settings.groups import ServerSettings

STREAM_NOTE = "With `stream`, the server sends JSON lines or server-sent events, by the request's headers."


@dataclass(frozen=True, slots=True)
class Route:
    """One inference route.

    request_type  struct of the body
    parse         converts the body to a GenerationRequest; for a batch, to a list of them
    writer        builds the response; for a batch, one writer per item
    """

    request_type: type[InferenceRequest]
    parse: Callable[[Any, ServerSettings], Any]
    writer: type[CompletionReplyWriter] | type[ChatReplyWriter]
    operation: Operation


STREAM_TYPES = (NDJSON.mimetype, SSE.mimetype)
COMPLETION = Route(
    LlamaStackCompletionRequest,
    parse.completion_request,
    CompletionReplyWriter,
    Operation(
        "Continue a text",
        STREAM_NOTE,
        LlamaStackCompletionRequest,
        LlamaStackCompletionResponse,
        STREAM_TYPES,
        error=LlamaStackErrorResponse,
        takes_permit=True,
    ),
)
CHAT = Route(
    LlamaStackChatRequest,
    parse.chat_request,
    ChatReplyWriter,
    Operation(
        "Answer in a conversation",
        STREAM_NOTE,
        LlamaStackChatRequest,
        LlamaStackChatResponse,
        STREAM_TYPES,
        error=LlamaStackErrorResponse,
        takes_permit=True,
    ),
)
COMPLETIONS = Route(
    BatchCompletionRequest,
    parse.completion_requests,
    CompletionReplyWriter,
    Operation(
        "Continue several texts",
        "",
        BatchCompletionRequest,
        BatchCompletionResponse,
        error=LlamaStackErrorResponse,
        takes_permit=True,
    ),
)
CHATS = Route(
    BatchChatRequest,
    parse.chat_requests,
    ChatReplyWriter,
    Operation(
        "Answer in several conversations",
        "",
        BatchChatRequest,
        BatchChatResponse,
        error=LlamaStackErrorResponse,
        takes_permit=True,
    ),
)
EMBEDDINGS = Operation(
    "Embed texts as vectors",
    body=EmbeddingsRequest,
    response=EmbeddingsResponse,
    error=LlamaStackErrorResponse,
    takes_permit=True,
)


@dataclass(frozen=True, slots=True)
class InferenceRoutes:
    version: ProtocolVersion
    models: Models
    settings: ServerSettings

    def respond_one(self, route: Route) -> Response:
        body: Any = read_struct(route.request_type)
        served = parse.resolve_model(body, self.models)
        generation_request = route.parse(body, self.settings)
        framing = (
            choose_framing(request.headers, self.version, self.settings.stream_format)
            if body.stream
            else None
        )
        acquire_permit()
        return respond(served.generate(generation_request), self._make_writer(route, body), framing)

    def respond_batch(self, route: Route) -> Response:
        body: Any = read_struct(route.request_type)
        served = parse.resolve_model(body, self.models)
        generation_requests = route.parse(body, self.settings)
        writers = [self._make_writer(route, body) for _ in generation_requests]
        acquire_permit()
        return respond(
            submit_all(served.generate, generation_requests),
            BatchWriter(self.version, writers, route.operation.response),
            None,
            len(generation_requests),
        )

    def embed(self) -> Response:
        """One vector per text."""
        body = read_struct(EmbeddingsRequest)
        served = parse.resolve_model(body, self.models)
        check_size(body.output_dimension, "output_dimension", served.card.info)
        if not body.contents:
            raise BadRequest("contents", "must hold at least one text")
        contents = [parse_content(content, f"contents[{i}]") for i, content in enumerate(body.contents)]

        def render_item(index: int, embedding: Embedding) -> tuple[float, ...]:
            return make_vector(embedding, body.output_dimension)

        def render(items: list[Raw], num_tokens: int) -> EmbeddingsResponse:
            return EmbeddingsResponse(cast(list[tuple[float, ...]], items))  # already JSON

        acquire_permit()
        stream = served.embed([content_text(content) for content in contents])
        writer = EmbeddingsWriter(render_item, render, error_before_start)
        return respond(stream, writer, None, len(contents))

    def _make_writer(self, route: Route, body: InferenceRequest) -> CompletionReplyWriter | ChatReplyWriter:
        return route.writer(self.version, logprobs=body.logprobs is not None)


def install(blueprint: Blueprint, version: ProtocolVersion, models: Models, settings: ServerSettings) -> None:
    inference = InferenceRoutes(version, models, settings)
    routes = {
        "/inference/completion": (inference.respond_one, COMPLETION),
        "/inference/chat completion": (inference.respond_one, CHAT),
        "/inference/batch completion": (inference.respond_batch, COMPLETIONS),
        "/inference/batch chat completion": (inference.respond_batch, CHATS),
        "/batch inference/completion": (inference.respond_batch, COMPLETIONS),
        "/batch inference/chat completion": (inference.respond_batch, CHATS),
    }
    for path, (respond_method, route) in routes.items():
        view = attach_operation(partial(respond_method, route), route.operation)
        blueprint.add_url_rule(version.path(path), path, view, methods=["POST"])
    embed_view = attach_operation(partial(inference.embed), EMBEDDINGS)
    blueprint.add_url_rule("/inference/embeddings", "embeddings", embed_view, methods=["POST"])
