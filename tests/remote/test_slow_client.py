"""A server that sends faster than the client reads is not read from meanwhile."""

import asyncio
from collections.abc import Callable

import pytest

from inference.backend import Backend
from inference.errors import ServerError
from inference.events import Event, Finished, Token
from inference.types import GenerationRequest
from tests.remote.conftest import CHAT, OpenModel
from tests.remote.fake_upstream import SILENCE_S, AdvancingLoop, FakeUpstream, Reply
from tests.remote.openai_chunks import DONE, chat_chunk

TEXT = "x" * 10_000
NUM_CHUNKS = 500
MAX_HELD_BYTES = 1 << 20


class SlowClient:
    """A Sink without room after each delivery, until `read`."""

    def __init__(self, backend: Backend) -> None:
        self.has_room = asyncio.Event()
        self.num_bytes = 0
        self.most_at_once = 0
        self.has_ended = False
        self.stream = backend.generate(GenerationRequest(CHAT))
        self.stream.start(self._receive)

    def _receive(self, arrived: list[Event] | ServerError) -> asyncio.Event:
        assert isinstance(arrived, list)
        num_bytes = sum(len(each.text) for each in arrived if isinstance(each, Token))
        self.num_bytes += num_bytes
        self.most_at_once = max(self.most_at_once, num_bytes)
        self.has_ended = any(isinstance(each, Finished) for each in arrived)
        self.has_room.clear()
        return self.has_room

    async def read(self) -> None:
        """Read all that has come, and wait for more."""
        num_bytes = self.num_bytes
        self.has_room.set()
        async with asyncio.timeout(60):
            while self.num_bytes == num_bytes and not self.has_ended:
                await asyncio.sleep(0.001)


@pytest.fixture
def client(upstream: FakeUpstream, open_upstream: OpenModel) -> Callable[[], SlowClient]:
    chunks = [chat_chunk({"content": TEXT})] * NUM_CHUNKS
    upstream.reply = Reply([b"".join(chunks), chat_chunk({}, reason="stop"), DONE])
    backend = open_upstream()
    return lambda: SlowClient(backend)


def test_what_has_not_been_read_stays_at_the_server(
    client: Callable[[], SlowClient], loop: AdvancingLoop
) -> None:
    async def run() -> None:
        slow = client()
        await slow.read()
        num_bytes = slow.num_bytes
        loop.advance(SILENCE_S)  # longer than the silence that a server is allowed
        await asyncio.sleep(0.01)
        assert slow.num_bytes == num_bytes < MAX_HELD_BYTES
        while not slow.has_ended:
            await slow.read()
        assert slow.num_bytes == len(TEXT) * NUM_CHUNKS
        assert slow.most_at_once < MAX_HELD_BYTES

    asyncio.run_coroutine_threadsafe(run(), loop).result(60)


def test_a_client_that_leaves_ends_the_wait(
    client: Callable[[], SlowClient], upstream: FakeUpstream, loop: asyncio.AbstractEventLoop
) -> None:
    async def run() -> None:
        slow = client()
        await slow.read()
        slow.stream.close()
        async with asyncio.timeout(60):
            while not upstream.sent[-1].cancelled_at:
                await asyncio.sleep(0.001)

    asyncio.run_coroutine_threadsafe(run(), loop).result(60)
