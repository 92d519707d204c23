"""The HTTP server: a listening socket, uvicorn's event loop, signals and the graceful shutdown.

Knows the bridge, the HTTP protocol and Backend.attach. Does not know routes.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType

import uvicorn

from api.server.app_response import Wsgi
from api.server.asgi_bridge import Bridge
from api.server.early_checks import EarlyChecks
from api.server.http_protocol import LimitedHttpProtocol
from api.server.web_socket_protocol import MAX_MESSAGE_BYTES, WebSocketProtocol
from inference.models import Models
from inference.process.listen_address import PORT_OPTION, is_unix_socket
from inference.process.memory.heap_trimmer import trimming_heap
from inference.process.time_slice import shorten_time_slice
from settings.groups import HttpSettings

KEEP_ALIVE_S = 60
BACKLOG = 2048
CLOSE_TIMEOUT_S = 1  # time for connections to close after the drain
# Seconds that the engine and the event loop wait for Python's lock while another thread computes, such as one
# that reads a large body. A step takes the lock 24 times; Python's default, 5 ms, is as long as whole steps,
# and 0.1 ms may cost throughput (docs/robustness.md).
THREAD_SWITCH_S = 0.0005
# Windows has Ctrl-Break, which the end of its console sends too.
SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name)]

log = logging.getLogger(__name__)


def serve(
    app: Wsgi,
    models: Models,
    checks: EarlyChecks,
    settings: HttpSettings,
    on_ready: Callable[["HttpServer"], None] = lambda server: None,
    on_stop: Callable[[], None] = lambda: None,
) -> int:
    """Serve until a signal. Returns the process's exit code: 1 if the address cannot be bound, else 0.

    models    their backends deliver events on the server's event loop
    settings  with a TLS certificate that can be served, or none
    on_ready  called when connections are accepted; HttpServer.stop, from any thread, acts like a signal
    on_stop   called on the event loop when the shutdown begins

    After SIGTERM or SIGINT, new requests get 503, and running ones have DRAIN_SECONDS to finish. A second
    signal ends the process at once.
    """
    sys.setswitchinterval(THREAD_SWITCH_S)
    host, port = settings.host, settings.port
    try:
        listener = listen(host, port)
    except OSError as error:
        log.error("cannot listen on %s port %d: %s; set another PORT or HOST", host, port, error.strerror)
        return 1
    bridge = Bridge(app, checks, workers=settings.validation_workers)
    with trimming_heap(bridge.trim_heap), asyncio.Runner(loop_factory=loop_factory()) as runner:
        server = HttpServer(bridge, listener, settings)
        runner.run(server.run(models, on_ready, on_stop))
    return 0


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError if the address is in use or does not belong to this machine.

    host: a name or an address, or the path of a Unix socket, which ends with .sock as in llama.cpp
    """
    if is_unix_socket(host):
        return listen_on_path(host)
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, PORT_OPTION, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def listen_on_path(path: str) -> socket.socket:
    """A listening Unix socket, which takes the place of one that a former server left behind."""
    with contextlib.suppress(FileNotFoundError):
        Path(path).unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(BACKLOG)
    return listener


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's event loop if uvloop is installed; None selects asyncio's. uvloop has no Windows version."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


class HttpServer:
    """uvicorn and the bridge on one listening socket."""

    def __init__(self, bridge: Bridge, listener: socket.socket, settings: HttpSettings) -> None:
        self.listener = listener
        self.scheme = "https" if settings.ssl_certfile else "http"
        self.drain_seconds = settings.drain_seconds
        self.bridge = bridge
        self.server = UvicornServer(
            uvicorn.Config(
                self.bridge,
                http=LimitedHttpProtocol,
                ws=partial(WebSocketProtocol, bridge.held_bodies),  # type: ignore[arg-type]
                ws_max_size=MAX_MESSAGE_BYTES,
                ws_per_message_deflate=False,
                lifespan="off",
                log_config=None,
                log_level=logging.ERROR,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=CLOSE_TIMEOUT_S,
                ssl_certfile=settings.ssl_certfile or None,
                ssl_keyfile=settings.ssl_keyfile or None,
            )
        )

    @property
    def url(self) -> str:
        return url_of(self.listener, self.scheme)

    def stop(self) -> None:
        """Start the shutdown and return at once. Callable from any thread."""
        self.loop.call_soon_threadsafe(self.stopping.set)

    async def run(
        self, models: Models, on_ready: Callable[["HttpServer"], None], on_stop: Callable[[], None]
    ) -> None:
        shorten_time_slice(inherited=False)  # the workers, which tokenize and check, have ordinary ones
        self.loop = asyncio.get_running_loop()
        self.stopping = asyncio.Event()
        models.attach(self.loop)
        with handle_signals(self.stop):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.server.serve([self.listener]))
                await self.server.listening.wait()
                log.info("serving on %s", self.url)
                on_ready(self)
                await self.stopping.wait()
                on_stop()
                log.info("draining: requests=%d seconds=%.0f", len(self.bridge.running), self.drain_seconds)
                await self.bridge.drain(self.drain_seconds)
                self.server.should_exit = True


def url_of(listener: socket.socket, scheme: str) -> str:
    address = listener.getsockname()
    if isinstance(address, str):  # a path
        return f"unix:{address}"
    host, port = address[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class UvicornServer(uvicorn.Server):
    """uvicorn without its signal handlers. Sets `listening` when it accepts connections."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        self.listening.set()
        await super().main_loop()


@contextlib.contextmanager
def handle_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first signal and restore the default handlers: a second signal ends the process.

    Does nothing outside the main thread, because Python sets signal handlers only there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_first_signal(number: int, frame: FrameType | None) -> None:
        for name in SIGNALS:
            signal.signal(name, signal.SIG_DFL)
        stop()

    previous_handlers = {name: signal.signal(name, on_first_signal) for name in SIGNALS}
    try:
        yield
    finally:
        for name, handler in previous_handlers.items():
            signal.signal(name, handler)
