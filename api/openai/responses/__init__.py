"""OpenAI's Responses, as far as they go without a memory. One door: install."""

from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

from flask import Blueprint, Response

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

KEPT = {"": ["GET", "DELETE"], "/cancel": ["POST"], "/input_items": ["GET"]}  # of a response that is kept


def install(blueprint: Blueprint, prefix: str, backend: Backend, settings: AppSettings) -> None:
    blueprint.add_url_rule(
        f"{prefix}/responses", f"{prefix}/responses", _respond(backend, settings), methods=["POST"]
    )
    for path, methods in KEPT.items():
        rule = f"{prefix}/responses/<id>{path}"
        blueprint.add_url_rule(rule, rule, _forgotten, methods=methods)


def _respond(backend: Backend, settings: AppSettings) -> Callable[[], Response]:
    def respond() -> Response:
        body = read(ResponsesBody)
        info = backend.info()
        model = served(body.model, info, settings)
        asked = chat(as_chat(body), info, settings, "input")
        writer = ResponseWriter(body, model, fingerprint(settings), asked.logprobs)
        stream = backend.generate(replace(asked, fits=False))
        return answer(stream, writer, NAMED_EVENTS if body.stream else None)

    return respond


def _forgotten(id: str) -> NoReturn:
    raise not_kept(id)
