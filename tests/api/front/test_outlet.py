"""What leaves through a connection that takes everything, and through one that does not."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from api.front.outlet import QUEUED, Outlet
from api.stream import NDJSON, Answer
from inference.errors import ServerError
from inference.types import Event, Finished, GenerationRequest, Started, Token
from tests.fake_backend import FakeBackend
from tests.plain_dialect import Texts


class ByHand:
    """A Stream whose events are delivered by calling `sink`."""

    closed = False

    def start(self, sink: Callable[[list[Event] | ServerError], None]) -> None:
        self.sink = sink

    def close(self) -> None:
        self.closed = True


def through(
    feed: Callable[[ByHand, asyncio.Event], Awaitable[None]], framing: Any = NDJSON
) -> tuple[list[dict[str, Any]], ByHand, int]:
    """Run `feed(stream, blocked)` beside an outlet; `blocked` set makes its connection take no more.

    Returns what was sent, the stream, and how often the connection was dropped.
    """
    stream, sent, aborts = ByHand(), [], []

    async def run() -> None:
        blocked, free = asyncio.Event(), asyncio.Event()

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)
            if blocked.is_set():
                await free.wait()

        def abort() -> None:
            aborts.append(1)
            free.set()

        outlet = Outlet(Answer(stream, Texts(), framing), abort)  # type: ignore[arg-type]
        running = asyncio.create_task(outlet.run(send, [(b"x-kept", b"1"), (b"content-type", b"old")]))
        await asyncio.sleep(0)
        await feed(stream, blocked)
        await asyncio.wait_for(running, 2)

    asyncio.run(run())
    return sent, stream, len(aborts)


def test_a_burst_does_not_cut_a_reader_who_reads() -> None:
    async def burst(stream: ByHand, blocked: asyncio.Event) -> None:
        for _ in range(QUEUED * 4):
            stream.sink([Token(0, 1, "x")])
        stream.sink([Finished(0, "stop")])

    sent, _, aborts = through(burst)
    assert (aborts, sent[1]["body"].count(b"\n")) == (0, QUEUED * 4)


def test_a_connection_that_takes_no_more_is_cut_at_the_limit() -> None:
    async def flood(stream: ByHand, blocked: asyncio.Event) -> None:
        blocked.set()
        stream.sink([Started(0, 1, 0)])
        await asyncio.sleep(0.01)
        for _ in range(QUEUED):
            stream.sink([Token(0, 1, "x")])
        assert not stream.closed
        stream.sink([Token(0, 1, "x")])
        assert stream.closed

    assert through(flood)[2] == 1


def test_the_head_goes_with_the_first_event() -> None:
    async def begin(stream: ByHand, blocked: asyncio.Event) -> None:
        stream.sink([Started(0, 1, 0)])
        await asyncio.sleep(0.01)
        stream.sink([Finished(0, "stop", text="x")])

    (start, last), _, _ = through(begin)
    assert start["headers"] == [(b"x-kept", b"1"), (b"content-type", b"application/x-ndjson")]
    assert (start["status"], last["body"], last["more_body"]) == (200, b'[0,"x"]\n', False)


def test_what_is_complete_at_once_has_its_length() -> None:
    async def all_of_it(stream: ByHand, blocked: asyncio.Event) -> None:
        stream.sink([Token(0, 1, "x"), Finished(0, "stop")])

    (start, last), _, _ = through(all_of_it, framing=None)
    assert (b"content-length", b"12") in start["headers"] and len(last["body"]) == 12


def test_a_cut_says_so_and_ends() -> None:
    outlet = Outlet(Answer(FakeBackend().generate(GenerationRequest("")), Texts(), NDJSON), lambda: None)
    outlet.cut(ServerError("over"))
    outlet.cut(ServerError("over again"))
    assert outlet.waiting == [b'{"failed":"over"}']
