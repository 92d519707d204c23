"""OpenAI's Responses API, stateless. Entry points: create_response, refuse_stored_response."""

from dataclasses import replace
from typing import NoReturn

from flask import Response

from api.openai.parse import chat_request, read_request, resolve_model_name
from api.openai.reply import fingerprint
from api.openai.responses.parse import not_stored_error, to_chat_request
from api.openai.responses.protocol import ResponsesRequest
from api.openai.responses.writer import NAMED_EVENTS, ResponseWriter
from api.response import respond
from inference.backend import Backend
from settings.groups import ServerSettings


def create_response(backend: Backend, settings: ServerSettings) -> Response:
    body = read_request(ResponsesRequest)
    info = backend.info()
    model = resolve_model_name(body.model, info, settings)
    generation_request = chat_request(to_chat_request(body), info, settings, "input")
    writer = ResponseWriter(body, model, fingerprint(settings), generation_request.logprobs)
    stream = backend.generate(replace(generation_request, reject_if_too_long=False))
    return respond(stream, writer, NAMED_EVENTS if body.stream else None)


def refuse_stored_response(id: str) -> NoReturn:
    raise not_stored_error(id)
