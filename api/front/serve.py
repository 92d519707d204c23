"""The server: a socket, uvicorn on the main thread's event loop, and an end that lets running answers finish.

Knows the bridge, the guard and signals; of the backend only how it delivers. Nothing of routes.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn

from api.front.bridge import WORKERS, Bridge, Wsgi
from api.front.guard import GuardedProtocol
from inference.backend import Backend

KEEP_ALIVE_S = 60
BACKLOG = 2048
CLOSING_S = 1  # what connections have to close once nothing runs any more
SIGNALS = (signal.SIGINT, signal.SIGTERM)

log = logging.getLogger(__name__)


def serve(
    app: Wsgi,
    backend: Backend,
    *,
    host: str,
    port: int,
    drain_seconds: float,
    max_body: int,
    workers: int = WORKERS,
    on_ready: Callable[["Front"], None] = lambda front: None,
) -> int:
    """Serve until a signal; returns the process's exit code.

    SIGTERM or SIGINT: new requests get 503, running ones have `drain_seconds` to finish; a second one kills.
    Port 0 takes a free one. `on_ready` is called once connections are accepted; `front.stop` does what a
    signal does, from any thread. The app runs on `workers` threads. 1 is returned, and nothing served, if
    the address cannot be had.
    """
    try:
        listener = listen(host, port)
    except OSError as error:
        log.error("cannot listen on %s port %d: %s; set another PORT or HOST", host, port, error.strerror)
        return 1
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(Front(app, listener, drain_seconds, max_body, workers).run(backend, on_ready))
    return 0


def listen(host: str, port: int) -> socket.socket:
    """A bound and listening socket; OSError if the address is taken or not this machine's."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where it is installed (not on Windows), else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


class Front:
    """A running server: where it is, and how to stop it."""

    def __init__(
        self, app: Wsgi, listener: socket.socket, drain_seconds: float, max_body: int, workers: int
    ) -> None:
        self.listener = listener
        self.drain_seconds = drain_seconds
        self.bridge = Bridge(app, max_body, workers=workers)
        self.server = Server(
            uvicorn.Config(
                self.bridge,
                http=GuardedProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level=logging.ERROR,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=CLOSING_S,
            )
        )

    @property
    def url(self) -> str:
        host, port = self.listener.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def stop(self) -> None:
        """Begin to drain. From any thread; returns at once."""
        self.loop.call_soon_threadsafe(self.stopping.set)

    async def run(self, backend: Backend, on_ready: Callable[["Front"], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.stopping = asyncio.Event()
        backend.deliver_with(self._post)
        with signals(self.stop):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.server.serve([self.listener]))
                await self.server.listens.wait()
                log.info("serving on %s", self.url)
                on_ready(self)
                await self.stopping.wait()
                log.info("draining: requests=%d seconds=%.0f", len(self.bridge.running), self.drain_seconds)
                await self.bridge.drain(self.drain_seconds)
                self.server.should_exit = True

    def _post(self, call: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody listens any more
            self.loop.call_soon_threadsafe(call)


class Server(uvicorn.Server):
    """uvicorn without its own signals, which says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        self.listens.set()
        await super().main_loop()


@contextlib.contextmanager
def signals(stop: Callable[[], None]) -> Iterator[None]:
    """Have the first signal call `stop`; the next finds the system's handlers and ends the process.

    Nothing is done outside the main thread, where Python has no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def first(number: int, frame: FrameType | None) -> None:
        for name in SIGNALS:
            signal.signal(name, signal.SIG_DFL)
        stop()

    before = {name: signal.signal(name, first) for name in SIGNALS}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
