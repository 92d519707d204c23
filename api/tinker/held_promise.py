"""A reply that waits for a promise, off the worker threads. Entry point: respond_with."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from flask import Response

from api.response import ResponseBody, respond
from api.tinker.errors import TryAgain, error_before_start
from inference.backend import Sink
from inference.errors import ServerError
from inference.events import Event, Finished
from tuning.runs.promise import Promise

HOLD_S = 30.0  # the client's own timeout is 45 s
PROTOBUF_TYPE = "application/x-protobuf"


class Waitable(Protocol):
    """Something that has a result, perhaps later."""

    def on_done(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the result is there: now, or later on any thread."""
        ...

    def outcome(self) -> Any:
        """The result, or what is replied while there is none. Raises ServerError."""
        ...


@dataclass(frozen=True, slots=True)
class WaitablePromise:
    """A promise, which is replied to with TryAgain while it is not resolved."""

    promise: Promise[Any]

    def on_done(self, callback: Callable[[], None]) -> None:
        self.promise.on_done(callback)

    def outcome(self) -> Any:
        result = self.promise.result()
        if result is None:
            raise TryAgain(self.promise.request_id)
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved(Finished):
    """The only event of a WaitStream."""

    result: Any


class WaitStream:
    """A Stream with one event: the outcome of `waitable` once it is done, or after `hold_s` seconds."""

    def __init__(self, waitable: Waitable, hold_s: float = HOLD_S) -> None:
        self._waitable, self._hold_s = waitable, hold_s
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        is_done = threading.Event()
        self._waitable.on_done(is_done.set)
        is_done.wait(self._hold_s)
        return self._event()

    def start(self, sink: Sink) -> None:
        loop = asyncio.get_running_loop()
        deliver = partial(self._deliver, sink)
        self._timer = loop.call_later(self._hold_s, deliver)

        def post() -> None:
            with suppress(RuntimeError):  # the event loop is closed: the server has stopped
                loop.call_soon_threadsafe(deliver)

        self._waitable.on_done(post)

    def close(self) -> None:
        """What is waited for goes on: the client may ask again."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _deliver(self, sink: Sink) -> None:
        if self._is_closed:
            return
        self.close()
        try:
            sink([self._event()])
        except ServerError as error:
            sink(error)

    def _event(self) -> Event:
        return Resolved(0, "stop", result=self._waitable.outcome())


class OutcomeWriter:
    """Writes the outcome with `write`, as JSON or as the bytes of a protobuf message."""

    def __init__(self, write: Callable[[Any], Any]) -> None:
        self._write = write
        self._body: Any = None

    def chunk(self, event: Event) -> list[Any]:
        assert isinstance(event, Resolved)
        self._body = self._write(event.result)
        return []

    def full_response(self) -> Any:
        return self._body

    def headers(self) -> dict[str, str]:
        return {"Content-Type": PROTOBUF_TYPE} if isinstance(self._body, bytes) else {}

    def error_before_start(self, error: ServerError) -> tuple[int, Any]:
        return error_before_start(error)

    def error_in_stream(self, error: ServerError) -> list[Any]:
        raise AssertionError("the reply is not streamed")


def respond_with(waitable: Waitable, write: Callable[[Any], Any], hold_s: float = HOLD_S) -> Response:
    """The reply with the outcome, as soon as it is there or `hold_s` seconds have passed."""
    writer = OutcomeWriter(write)
    response = respond(WaitStream(waitable, hold_s), writer, None, headers=writer.headers)
    if isinstance(response.response, ResponseBody):
        response.response.is_poll = True
    return response
