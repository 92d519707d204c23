"""Responses over a WebSocket, OpenAI's WebSocket mode: server/web_socket.py runs each message as a request.

A connection remembers its last response that is not stored, and the next message can continue it. A message
with `generate` false computes its prompt and generates nothing.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from flask import request

from api.body import json_body
from api.openai.errors import InvalidBody, envelope, error_before_start
from api.openai.responses.stored_items import stored_output
from api.openai.responses.writer import ResponseWriter
from api.store.tables import StoredItem
from api.wsgi_environ import MESSAGE_STATE
from inference.backend import Sink, Stream
from inference.errors import ServerError
from inference.events import Event, Finished, Started

CREATE = "response.create"  # the only type of a client's message
LAST_RESPONSE = "last_response"  # key in the connection's state


@dataclass(frozen=True, slots=True)
class LastResponse:
    """items: all items up to the end of the response, its output included"""

    id: str
    items: list[StoredItem]


def connection_state() -> dict[str, Any] | None:
    """What is remembered of the connection of the current message; None: the request is no message."""
    state: dict[str, Any] | None = request.environ.get(MESSAGE_STATE)
    return state


def check_message() -> None:
    """Raises InvalidBody."""
    kind = json_body.read().get("type")
    if kind != CREATE:
        raise InvalidBody(f"type must be {CREATE}", "type")


def is_warm_up() -> bool:
    """Whether the current message asks for no answer."""
    return json_body.read().get("generate") is False


def take_last_response(id: str) -> list[StoredItem]:
    """The items of the connection's last response, if this is its id; they are forgotten: an error ends the
    chain. Empty: it has another id, or is stored.
    """
    state = connection_state() or {}
    last: LastResponse | None = state.get(LAST_RESPONSE)
    if last is None or last.id != id:
        return []
    del state[LAST_RESPONSE]
    return last.items


def remember(state: dict[str, Any], writer: ResponseWriter, items: list[StoredItem]) -> None:
    """Let the next message continue the response. items: those that it was made from"""
    if writer.end and not writer.error:
        state[LAST_RESPONSE] = LastResponse(
            writer.id, [*items, *stored_output(item.to_json() for item in writer.items)]
        )


def render_error(error: ServerError) -> tuple[int, Any]:
    """Status and body of an error before the first byte; for a message, a message."""
    return error_before_start(error) if connection_state() is None else error_message(error)


def error_message(error: ServerError) -> tuple[int, dict[str, Any]]:
    """The message of an error before the first event: its code is a text."""
    info = envelope(error).error
    code = info.code if isinstance(info.code, str) else info.type
    details = {"type": info.type, "code": code, "message": info.message, "param": info.param}
    return error.status, {"type": "error", "status": error.status, "error": details}


class WarmUpStream:
    """A Stream of `stream` without the tokens of its answer."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        while not (events := _without_tokens([next(self._stream)])):
            pass
        return events[0]

    def start(self, sink: Sink) -> None:
        def receive(arrived: list[Event] | ServerError) -> asyncio.Event | None:
            return sink(arrived if isinstance(arrived, ServerError) else _without_tokens(arrived))

        self._stream.start(receive)

    def close(self) -> None:
        self._stream.close()


def _without_tokens(events: list[Event]) -> list[Event]:
    return [
        replace(event, finish_reason="stop", text="", num_tokens=0) if isinstance(event, Finished) else event
        for event in events
        if isinstance(event, Started | Finished)
    ]
