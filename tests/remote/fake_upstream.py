"""An HTTP server that plays a script of bytes, and notes what was sent to it and when a client left."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

# Bytes to send, seconds to pause, an event that the test sets, or how the connection ends: "silence" is to
# "wait" for longer than any client does.
Step = bytes | float | asyncio.Event | Literal["reset", "wait", "silence"]
EVENT_STREAM = "text/event-stream"
SILENCE_S = 1000.0


class AdvancingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be advanced: what is due by then happens at once, on any machine."""

    _lead_s = 0.0

    def time(self) -> float:
        return super().time() + self._lead_s

    def advance(self, seconds: float) -> None:
        """From any thread, behind what the loop has to do already."""
        self.call_soon_threadsafe(self._advance, seconds)

    def _advance(self, seconds: float) -> None:
        self._lead_s += seconds


@dataclass
class Sent:
    """A request that arrived. cancelled_at: time.monotonic() when its client left; 0: it did not."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    cancelled_at: float = 0.0

    def note_end(self, reading: asyncio.Future[bytes]) -> None:
        """The client sends nothing more, or has been answered."""
        self.cancelled_at = time.monotonic()
        if not reading.cancelled():
            reading.exception()  # or asyncio reports that nobody has asked for it


@dataclass
class Reply:
    """What is answered. steps: the body; raw: it has the head too."""

    steps: list[Step] = field(default_factory=list)
    status: int = 200
    content_type: str = EVENT_STREAM
    headers: dict[str, str] = field(default_factory=dict)
    is_raw: bool = False


def event(value: Any) -> bytes:
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


def document(value: Any, status: int = 200, **headers: str) -> Reply:
    return Reply([json.dumps(value).encode()], status, "application/json", headers)


class FakeUpstream:
    """reply: what the next request gets, or what chooses it by the request."""

    def __init__(self) -> None:
        self.reply: Reply | Callable[[Sent], Reply] = Reply()
        self.sent: list[Sent] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def bodies(self) -> list[Any]:
        return [each.body for each in self.sent if each.method == "POST"]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await read_request(reader):
                self.sent.append(request)
                reply = self.reply(request) if callable(self.reply) else self.reply
                if not await self.play(reply, request, reader, writer):
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def play(
        self, reply: Reply, request: Sent, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Send the reply. Returns whether the connection stays open."""
        if not reply.is_raw:
            head = {"Content-Type": reply.content_type, "Connection": "close", **reply.headers}
            lines = [f"HTTP/1.1 {reply.status} X", *(f"{name}: {value}" for name, value in head.items())]
            writer.write("\r\n".join([*lines, "", ""]).encode())
        watcher = asyncio.ensure_future(reader.read(1))
        watcher.add_done_callback(request.note_end)
        for step in reply.steps:
            if isinstance(step, bytes):
                writer.write(step)
                await writer.drain()
            elif step == "reset":
                writer.transport.abort()
                return False
            elif step in ("wait", "silence"):
                if step == "silence":
                    advancing_loop().advance(SILENCE_S)
                await watcher
            elif isinstance(step, float):
                await asyncio.sleep(step)
            elif isinstance(step, asyncio.Event):
                await step.wait()
        watcher.cancel()
        return False


async def read_request(reader: asyncio.StreamReader) -> Sent | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    method, path, _ = first.split()
    return Sent(method, path, headers, read_value(body))


def read_value(body: bytes) -> Any:
    """The JSON of a body; the bytes themselves if they are none, and None if there are none."""
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body


def advancing_loop() -> AdvancingLoop:
    """The loop that runs this coroutine."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, AdvancingLoop)
    return loop


@contextmanager
def running_loop() -> Iterator[AdvancingLoop]:
    """An event loop in a thread of its own."""
    loop = AdvancingLoop()
    thread = threading.Thread(target=loop.run_forever, name="test-loop", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        asyncio.run_coroutine_threadsafe(end_tasks(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=60)
        loop.close()


async def end_tasks() -> None:
    """End the other tasks of the loop: connections that wait for what never comes."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def start(upstream: FakeUpstream, loop: asyncio.AbstractEventLoop) -> asyncio.Server:
    """Serve the upstream on the loop."""

    async def listen() -> asyncio.Server:
        server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0)
        upstream.port = server.sockets[0].getsockname()[1]
        return server

    return asyncio.run_coroutine_threadsafe(listen(), loop).result(60)


def wait_until(is_true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Raises AssertionError if it does not become true."""
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.005)
