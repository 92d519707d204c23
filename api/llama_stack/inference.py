"""The inference routes of one generation: completion, chat completion, and batches of both.

Knows what each route takes and gives; how bodies are understood and replies worded is told elsewhere.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from flask import Blueprint, Response, request

from api.body import decode
from api.joined import together
from api.llama_stack import requests
from api.llama_stack.answers import (
    ChatAnswer,
    ChatBatchAnswer,
    CompletionAnswer,
    CompletionBatchAnswer,
    ErrorBody,
)
from api.llama_stack.batch import BatchWriter
from api.llama_stack.bodies import Body, ChatBatchBody, ChatBody, CompletionBatchBody, CompletionBody
from api.llama_stack.framing import framing
from api.llama_stack.generation import Generation
from api.llama_stack.models import check
from api.llama_stack.replies import ChatWriter, CompletionWriter
from api.operation import Operation, described
from api.settings import AppSettings
from api.stream import NDJSON, SSE, answer
from inference.backend import Backend

STREAMED = "With `stream`, events come one a line, or as server-sent events to clients that ask for these."


@dataclass(frozen=True, slots=True)
class Kind:
    """What a route takes, how that is read, and who words the reply."""

    body: type[Body]
    read: Callable[[Any, AppSettings], Any]
    writer: type[CompletionWriter] | type[ChatWriter]
    operation: Operation


STREAMS = (NDJSON.mimetype, SSE.mimetype)
COMPLETION = Kind(
    CompletionBody,
    requests.completion,
    CompletionWriter,
    Operation("Continue a text", STREAMED, CompletionBody, CompletionAnswer, STREAMS, error=ErrorBody),
)
CHAT = Kind(
    ChatBody,
    requests.chat,
    ChatWriter,
    Operation("Answer in a conversation", STREAMED, ChatBody, ChatAnswer, STREAMS, error=ErrorBody),
)
COMPLETIONS = Kind(
    CompletionBatchBody,
    requests.completions,
    CompletionWriter,
    Operation("Continue several texts", "", CompletionBatchBody, CompletionBatchAnswer, error=ErrorBody),
)
CHATS = Kind(
    ChatBatchBody,
    requests.chats,
    ChatWriter,
    Operation("Answer in several conversations", "", ChatBatchBody, ChatBatchAnswer, error=ErrorBody),
)


@dataclass(frozen=True, slots=True)
class Inference:
    generation: Generation
    backend: Backend
    settings: AppSettings

    def one(self, kind: Kind) -> Response:
        body = self._body(kind)
        stream = self.backend.generate(kind.read(body, self.settings))
        style = (
            framing(request.headers, self.generation, self.settings.stream_format) if body.stream else None
        )
        return answer(stream, self._writer(kind, body), style)

    def many(self, kind: Kind) -> Response:
        body = self._body(kind)
        asked = kind.read(body, self.settings)
        writers = [self._writer(kind, body) for _ in asked]
        return answer(
            together(self.backend.generate, asked), BatchWriter(self.generation, writers), None, len(asked)
        )

    def _body(self, kind: Kind) -> Any:
        body = decode(kind.body)
        check(body, self.backend.info(), self.settings)
        return body

    def _writer(self, kind: Kind, body: Body) -> CompletionWriter | ChatWriter:
        return kind.writer(self.generation, logprobs=body.logprobs is not None)


def install(blueprint: Blueprint, generation: Generation, backend: Backend, settings: AppSettings) -> None:
    inference = Inference(generation, backend, settings)
    routes = {
        "/inference/completion": (inference.one, COMPLETION),
        "/inference/chat completion": (inference.one, CHAT),
        "/inference/batch completion": (inference.many, COMPLETIONS),
        "/inference/batch chat completion": (inference.many, CHATS),
        "/batch inference/completion": (inference.many, COMPLETIONS),
        "/batch inference/chat completion": (inference.many, CHATS),
    }
    for path, (answers, kind) in routes.items():
        view = described(partial(answers, kind), kind.operation)
        blueprint.add_url_rule(generation.path(path), path, view, methods=["POST"])
