"""OpenAI's Responses API, stateless. Entry points: create_response, refuse_stored_response."""

from dataclasses import replace
from typing import NoReturn

from flask import Response

from api.concurrency_limit import acquire_permit
from api.openai.parse import chat_request, read_request
from api.openai.reply import fingerprint
from api.openai.responses.parse import not_stored_error, to_chat_request
from api.openai.responses.protocol import ResponsesRequest
from api.openai.responses.writer import NAMED_EVENTS, ResponseWriter
from api.response import respond
from inference.models import Models
from settings.groups import ServerSettings


def create_response(models: Models, settings: ServerSettings) -> Response:
    body = read_request(ResponsesRequest)
    served = models.resolve(body.model)
    generation_request = chat_request(to_chat_request(body), served.card.info, settings, "input")
    writer = ResponseWriter(body, served.card.name, fingerprint(settings), generation_request.logprobs)
    acquire_permit()
    stream = served.generate(replace(generation_request, reject_if_too_long=False))
    return respond(stream, writer, NAMED_EVENTS if body.stream else None)


def refuse_stored_response(id: str) -> NoReturn:
    raise not_stored_error(id)
