"""OpenAI's Responses, as far as they go without a memory. Doors: respond, forgotten."""

from dataclasses import replace
from typing import NoReturn

from flask import Response

from api.openai.models import served
from api.openai.reading import read
from api.openai.requests import chat
from api.openai.responses.bodies import ResponsesBody
from api.openai.responses.requests import as_chat, not_kept
from api.openai.responses.writer import NAMED_EVENTS, ResponseWriter
from api.openai.shape import fingerprint
from api.settings import AppSettings
from api.stream import answer
from inference.backend import Backend


def respond(backend: Backend, settings: AppSettings) -> Response:
    body = read(ResponsesBody)
    info = backend.info()
    model = served(body.model, info, settings)
    asked = chat(as_chat(body), info, settings, "input")
    writer = ResponseWriter(body, model, fingerprint(settings), asked.logprobs)
    stream = backend.generate(replace(asked, fits=False))
    return answer(stream, writer, NAMED_EVENTS if body.stream else None)


def forgotten(id: str) -> NoReturn:
    raise not_kept(id)
