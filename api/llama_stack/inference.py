"""The inference routes of one generation: completion, chat completion, and batches of both.

Knows what each route takes and gives; how bodies are understood and replies worded is told elsewhere.
"""

from flask import Blueprint, Response, request

from api.body import decode
from api.joined import Joined
from api.llama_stack import requests
from api.llama_stack.batch import BatchWriter
from api.llama_stack.bodies import ChatBatchBody, ChatBody, CompletionBatchBody, CompletionBody
from api.llama_stack.framing import framing
from api.llama_stack.generation import Generation
from api.llama_stack.models import check
from api.llama_stack.replies import ChatWriter, CompletionWriter
from api.settings import AppSettings
from api.stream import Writer, answer
from inference.backend import Backend, Stream
from inference.types import GenerationRequest, ServerError


def install(blueprint: Blueprint, generation: Generation, backend: Backend, settings: AppSettings) -> None:
    def completion() -> Response:
        body = decode(CompletionBody)
        check(body, backend.info(), settings)
        asked = requests.completion(body, settings)
        return one(asked, CompletionWriter(generation, body.logprobs is not None), bool(body.stream))

    def chat() -> Response:
        body = decode(ChatBody)
        check(body, backend.info(), settings)
        asked = requests.chat(body, settings)
        return one(asked, ChatWriter(generation, body.logprobs is not None), bool(body.stream))

    def completions() -> Response:
        body = decode(CompletionBatchBody)
        check(body, backend.info(), settings)
        asked = requests.completions(body, settings)
        return many(asked, [CompletionWriter(generation, body.logprobs is not None) for _ in asked])

    def chats() -> Response:
        body = decode(ChatBatchBody)
        check(body, backend.info(), settings)
        asked = requests.chats(body, settings)
        return many(asked, [ChatWriter(generation, body.logprobs is not None) for _ in asked])

    def one(asked: GenerationRequest, writer: Writer, streamed: bool) -> Response:
        style = framing(request.headers, generation, settings.stream_format) if streamed else None
        return answer(backend.generate(asked), writer, style)

    def many(asked: list[GenerationRequest], writers: list[CompletionWriter] | list[ChatWriter]) -> Response:
        return answer(_all(backend, asked), BatchWriter(generation, writers), None, len(asked))

    for view, paths in {
        completion: ["/inference/completion"],
        chat: ["/inference/chat completion"],
        completions: ["/batch inference/completion", "/inference/batch completion"],
        chats: ["/batch inference/chat completion", "/inference/batch chat completion"],
    }.items():
        for path in paths:
            blueprint.add_url_rule(generation.path(path), view.__name__, view, methods=["POST"])


def _all(backend: Backend, asked: list[GenerationRequest]) -> Stream:
    """All requests, submitted as one stream; none is left running where one is refused."""
    streams: list[Stream] = []
    try:
        for each in asked:
            streams.append(backend.generate(each))
    except ServerError:
        Joined(streams).close()
        raise
    return Joined(streams)
