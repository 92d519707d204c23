"""The smallest dialect: /say answers with the events' texts. For tests of what all dialects share."""

from typing import Any

import msgspec
from flask import Blueprint, Response

from api import body
from api.joined import Joined
from api.stream import NDJSON, SSE, answer
from inference.backend import Backend
from inference.errors import ServerError
from inference.types import Event, Finished, GenerationRequest, Token

FRAMINGS = {"": None, "ndjson": NDJSON, "sse": SSE}


class Say(msgspec.Struct, forbid_unknown_fields=True):
    prompt: str = "hi"
    stream: str = ""
    n: int = 1
    copies: int = 1


class Texts:
    """A Writer: every text as a value, or all of them as one list."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def chunk(self, event: Event) -> list[Any]:
        if not isinstance(event, Token | Finished) or not event.text:
            return []
        self.texts.append(event.text)
        return [[event.index, event.text]]

    def whole(self) -> Any:
        return {"said": "".join(self.texts)}

    def failed(self, error: ServerError) -> tuple[int, Any]:
        return error.status, {"failed": error.message}

    def broken(self, error: ServerError) -> list[Any]:
        return [{"broken": error.message}]


def routes(backend: Backend) -> Blueprint:
    plain = Blueprint("plain", __name__)

    @plain.post("/say")
    def say() -> Response:
        asked = body.decode(Say)
        streams = [backend.generate(GenerationRequest(asked.prompt, n=asked.n)) for _ in range(asked.copies)]
        stream = streams[0] if asked.copies == 1 else Joined(streams, asked.n)
        return answer(stream, Texts(), FRAMINGS[asked.stream], asked.n * asked.copies)

    @plain.post("/fail")
    def fail() -> Response:
        raise RuntimeError("secret at /etc/passwd")

    return plain
