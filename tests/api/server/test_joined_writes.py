"""The head and the body of a response arrive in one piece, whole, and before the connection is closed."""

import asyncio
from collections.abc import Callable

import pytest

from api.server.joined_writes import JoinedWrites
from tests.api.conftest import LiveServer
from tests.api.conftest import request as http_request
from tests.fakes.fake_backend import FakeBackend

Start = Callable[..., LiveServer]


class RecordingTransport(asyncio.Transport):
    """Keeps what is written, and in which order it was closed."""

    def __init__(self) -> None:
        self.calls: list[bytes | str] = []

    def write(self, data: bytes) -> None:  # type: ignore[override]
        self.calls.append(data)

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")

    def is_closing(self) -> bool:
        return "close" in self.calls or "abort" in self.calls


def calls_after(use: Callable[[JoinedWrites], object]) -> list[bytes | str]:
    """What the transport below has seen a turn of the loop after `use`."""

    async def run() -> list[bytes | str]:
        below = RecordingTransport()
        use(JoinedWrites(below, asyncio.get_running_loop()))
        await asyncio.sleep(0)
        return below.calls

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("last", "calls"), [("is_closing", [b"ab"]), ("close", [b"ab", "close"]), ("abort", ["abort"])]
)
def test_what_is_written_in_one_turn_is_sent_at_once(last: str, calls: list[bytes | str]) -> None:
    def use(transport: JoinedWrites) -> None:
        transport.write(b"a")
        transport.write(b"b")
        getattr(transport, last)()

    assert calls_after(use) == calls


def test_head_and_body_of_a_response_arrive_together(live: Start) -> None:
    server = live(FakeBackend())
    for path in ("/health/live", "/nowhere"):
        with server.connect(http_request("GET", path)) as connection:
            head, _, body = connection.recv(1 << 16).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 ") and body
