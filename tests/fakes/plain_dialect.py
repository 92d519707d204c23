"""The smallest dialect, for what all dialects share: /say answers with the events' texts."""

from typing import Any

import msgspec
from flask import Blueprint, Response

from api.body import json_body
from api.merged_stream import MergedStream
from api.response import NDJSON, SSE, respond
from inference.backend import Backend
from inference.errors import ServerError
from inference.events import Event, Finished, Token
from inference.types import GenerationRequest

FRAMINGS = {"": None, "ndjson": NDJSON, "sse": SSE}


class Say(msgspec.Struct, forbid_unknown_fields=True):
    prompt: str = "hi"
    stream: str = ""
    n: int = 1
    copies: int = 1


class PlainWriter:
    """A writer that sends every text as a value, or all of them joined."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def chunk(self, event: Event) -> list[Any]:
        if not isinstance(event, Token | Finished) or not event.text:
            return []
        self.texts.append(event.text)
        return [[event.index, event.text]]

    def full_response(self) -> Any:
        return {"said": "".join(self.texts)}

    def error_before_start(self, error: ServerError) -> tuple[int, Any]:
        return error.status, {"failed": error.message}

    def error_in_stream(self, error: ServerError) -> list[Any]:
        return [{"broken": error.message}]


def routes(backend: Backend) -> Blueprint:
    plain = Blueprint("plain", __name__)

    @plain.post("/say")
    def say() -> Response:
        params = json_body.read_struct(Say)
        streams = [
            backend.generate(GenerationRequest(params.prompt, n=params.n)) for _ in range(params.copies)
        ]
        stream = streams[0] if params.copies == 1 else MergedStream(streams, params.n)
        return respond(stream, PlainWriter(), FRAMINGS[params.stream], params.n * params.copies)

    @plain.post("/fail")
    def fail() -> Response:
        raise RuntimeError("secret at /etc/passwd")

    return plain
