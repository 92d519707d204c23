"""ResponseSender on a connection that accepts everything, and on one that blocks."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from api.response import NDJSON, ResponseBody
from api.server.response_sender import MAX_QUEUED_BYTES, MAX_QUEUED_STEPS, ResponseSender
from inference.backend import Sink
from inference.errors import ServerError
from inference.events import Finished, Started, Token
from inference.types import GenerationRequest
from tests.fakes.fake_backend import FakeBackend
from tests.fakes.plain_dialect import PlainWriter
from tests.timeouts import TIMEOUT_S


class ManualStream:
    """A Stream whose events are delivered by calling `sink`."""

    closed = False

    def start(self, sink: Sink) -> None:
        self.sink = sink

    def close(self) -> None:
        self.closed = True


def run_sender(
    feed: Callable[[ManualStream, asyncio.Event], Awaitable[None]], framing: Any = NDJSON
) -> tuple[list[dict[str, Any]], ManualStream, int]:
    """Runs `feed(stream, blocked)` against a ResponseSender; while `blocked` is set, its connection accepts
    no data.

    Returns the messages sent, the stream, and how often the connection was aborted.
    """
    stream, sent, aborts = ManualStream(), [], []

    async def run() -> None:
        blocked, free = asyncio.Event(), asyncio.Event()

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)
            if blocked.is_set():
                await free.wait()

        def abort() -> None:
            aborts.append(1)
            free.set()

        sender = ResponseSender(ResponseBody(stream, PlainWriter(), framing), abort)  # type: ignore[arg-type]
        running = asyncio.create_task(sender.run(send, [(b"x-kept", b"1"), (b"content-type", b"old")]))
        await asyncio.sleep(0)
        await feed(stream, blocked)
        await asyncio.wait_for(running, TIMEOUT_S)

    asyncio.run(run())
    return sent, stream, len(aborts)


async def run_pending() -> None:
    """Let the sender send what it can."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_burst_does_not_disconnect_a_reader_that_keeps_up() -> None:
    async def burst(stream: ManualStream, blocked: asyncio.Event) -> None:
        for _ in range(MAX_QUEUED_STEPS * 4):
            stream.sink([Token(0, 1, "x")])
        stream.sink([Finished(0, "stop")])

    sent, _, aborts = run_sender(burst)
    assert (aborts, sent[1]["body"].count(b"\n")) == (0, MAX_QUEUED_STEPS * 4)


@pytest.mark.parametrize(("num_events", "text"), [(MAX_QUEUED_STEPS, "x"), (1, "x" * MAX_QUEUED_BYTES)])
def test_a_stream_that_can_wait_gets_what_is_set_once_the_queue_is_sent(num_events: int, text: str) -> None:
    async def fill(stream: ManualStream, blocked: asyncio.Event) -> None:
        for _ in range(num_events - 1):
            assert stream.sink([Token(0, 1, text)]) is None
        has_room = stream.sink([Token(0, 1, text)])
        assert has_room and not has_room.is_set()
        await asyncio.wait_for(has_room.wait(), TIMEOUT_S)
        assert stream.sink([Finished(0, "stop")]) is None

    assert run_sender(fill)[2] == 0


def test_a_blocked_connection_is_aborted_at_the_limit() -> None:
    async def flood(stream: ManualStream, blocked: asyncio.Event) -> None:
        blocked.set()
        stream.sink([Started(0, 1, 0)])
        await run_pending()
        for _ in range(MAX_QUEUED_STEPS):
            stream.sink([Token(0, 1, "x")])
        assert not stream.closed
        stream.sink([Token(0, 1, "x")])
        assert stream.closed

    assert run_sender(flood)[2] == 1


def test_the_head_is_sent_with_the_first_event() -> None:
    async def begin(stream: ManualStream, blocked: asyncio.Event) -> None:
        stream.sink([Started(0, 1, 0)])
        await run_pending()
        stream.sink([Finished(0, "stop", text="x")])

    (start, last), _, _ = run_sender(begin)
    assert start["headers"] == [(b"x-kept", b"1"), (b"content-type", b"application/x-ndjson")]
    assert (start["status"], last["body"], last["more_body"]) == (200, b'[0,"x"]\n', False)


def test_a_complete_answer_has_its_content_length() -> None:
    async def all_of_it(stream: ManualStream, blocked: asyncio.Event) -> None:
        stream.sink([Token(0, 1, "x"), Finished(0, "stop")])

    (start, last), _, _ = run_sender(all_of_it, framing=None)
    assert (b"content-length", b"12") in start["headers"] and len(last["body"]) == 12


def test_an_abort_sends_one_error_and_ends() -> None:
    sender = ResponseSender(
        ResponseBody(FakeBackend().generate(GenerationRequest("")), PlainWriter(), NDJSON), lambda: None
    )
    sender.abort(ServerError("over"))
    sender.abort(ServerError("over again"))
    assert sender.queue == [b'{"failed":"over"}']
