"""A stream whose producer runs on the event loop ends in every case."""

import asyncio
import threading

import pytest

from inference.errors import Internal
from inference.events import Event, Token
from inference.remote.stream import Emit, RemoteStream

EVENT: Event = Token(0, 5, "a")


async def fail_after_one_event(emit: Emit) -> None:
    emit([EVENT])
    raise MemoryError


def test_an_iteration_ends_where_the_producer_fails(loop: asyncio.AbstractEventLoop) -> None:
    stream = RemoteStream(loop, fail_after_one_event)
    assert next(stream) == EVENT
    with pytest.raises(Internal, match="could not be relayed"):
        next(stream)


def test_a_sink_gets_the_error_of_a_producer_that_fails(loop: asyncio.AbstractEventLoop) -> None:
    deliveries: list[object] = []
    has_ended = threading.Event()

    def sink(delivery: object) -> None:
        deliveries.append(delivery)
        if isinstance(delivery, Internal):
            has_ended.set()

    stream = RemoteStream(loop, fail_after_one_event)
    loop.call_soon_threadsafe(stream.start, sink)
    assert has_ended.wait(60)
    assert deliveries[0] == [EVENT]
