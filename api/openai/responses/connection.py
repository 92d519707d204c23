"""Responses over a WebSocket, OpenAI's WebSocket mode: server/web_socket.py runs each message as a request.

A connection remembers its last response that is not stored, and the next message can continue it. A message
with `generate` false computes its prompt and generates nothing.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from flask import Response, current_app, request
from msgspec import structs

from api.body import json_body
from api.errors import ErrorFormat
from api.openai.errors import InvalidBody, envelope, error_before_start
from api.openai.responses.last_response import LastResponse, LastResponses
from api.openai.responses.protocol import ResponsesRequest
from api.openai.responses.stored_items import stored_output
from api.openai.responses.writer import ResponseWriter
from api.response import ResponseBody
from api.store.context import check_length
from api.store.tables import StoredItem
from api.wsgi_environ import MESSAGE_STATE
from inference.backend import Sink, Stream
from inference.errors import ServerError
from inference.events import Event, Finished, Started
from inference.served import Served
from inference.types import GenerationRequest

CREATE = "response.create"  # the only type of a client's message
LAST_RESPONSE = "last_response"  # key in the connection's state
LAST_RESPONSES = "last_responses"  # key in app.extensions: LastResponses


class Exchange:
    """A request by HTTP and its answer. ConnectionMessage has what differs for a message of a connection."""

    error_before_start: ErrorFormat = staticmethod(error_before_start)

    @property
    def is_warm_up(self) -> bool:
        """Whether no answer is generated."""
        return False

    def prepare(self, body: ResponsesRequest) -> ResponsesRequest:
        """The request to answer. Raises InvalidBody."""
        return body

    def generate(self, served: Served, request: GenerationRequest) -> Stream:
        return served.generate(request)

    def take_last_response(self, id: str) -> Sequence[StoredItem]:
        """The items of the connection's last response, if this is its id; they are forgotten: an error ends
        the chain. Empty: it has another id, is stored, or is forgotten. Raises ContextTooLong.
        """
        return []

    def remember(
        self, response: Response, writer: ResponseWriter, make_items: Callable[[], list[StoredItem]]
    ) -> None:
        """Let the connection's next message continue the response. make_items: those that it was made from"""


class ConnectionMessage(Exchange):
    """A message of a connection and its answer. state: what is remembered of the connection"""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state

    @property
    def is_warm_up(self) -> bool:
        return json_body.read().get("generate") is False

    @staticmethod
    def error_before_start(error: ServerError) -> tuple[int, dict[str, Any]]:
        """The error before the first event: its code is a text."""
        info = envelope(error).error
        code = info.code if isinstance(info.code, str) else info.type
        details = {"type": info.type, "code": code, "message": info.message, "param": info.param}
        return error.status, {"type": "error", "status": error.status, "error": details}

    def prepare(self, body: ResponsesRequest) -> ResponsesRequest:
        if json_body.read().get("type") != CREATE:
            raise InvalidBody(f"type must be {CREATE}", "type")
        return structs.replace(body, stream=True)

    def generate(self, served: Served, request: GenerationRequest) -> Stream:
        if not self.is_warm_up:
            return served.generate(request)
        return WarmUpStream(served.generate(replace(request, max_tokens=1)))

    def take_last_response(self, id: str) -> Sequence[StoredItem]:
        last: LastResponse | None = self.state.get(LAST_RESPONSE)
        if last is None or last.id != id:
            return []
        del self.state[LAST_RESPONSE]
        check_length(last.items)
        return last.items

    def remember(
        self, response: Response, writer: ResponseWriter, make_items: Callable[[], list[StoredItem]]
    ) -> None:
        last_responses: LastResponses
        last_responses = current_app.extensions.setdefault(LAST_RESPONSES, LastResponses())

        def remember_if_unstored() -> None:
            if writer.end and not writer.error and not writer.is_stored:
                output = stored_output(item.to_json() for item in writer.items)
                last = LastResponse(writer.id, [*make_items(), *output])
                self.state[LAST_RESPONSE] = last
                last_responses.add(last)

        assert isinstance(response.response, ResponseBody)
        response.response.on_close(remember_if_unstored)


def current_exchange() -> Exchange:
    state: dict[str, Any] | None = request.environ.get(MESSAGE_STATE)
    return Exchange() if state is None else ConnectionMessage(state)


def is_handshake() -> bool:
    """Whether the current request, a GET, opens a connection."""
    return request.environ.get(MESSAGE_STATE) is not None


def render_error(error: ServerError) -> tuple[int, Any]:
    """Status and body of an error before the first byte; for a message, a message."""
    return current_exchange().error_before_start(error)


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
