"""The Flask app as an ASGI app: an event loop does the I/O, worker threads run Flask.

Knows WSGI, ASGI and ResponseBody. Does not know routes or dialects. When a client disconnects, its
ResponseBody is closed at once, which cancels the generation.
"""

import asyncio
import contextlib
import io
import logging
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any, BinaryIO

from api.body.file_body import FileBody
from api.body.large_json import COUNTED_BYTES
from api.hooks.body_limits import UNUSED_BODY_BYTES
from api.hooks.concurrency_limit import Permit
from api.hooks.request_log import printable_path
from api.response import ResponseBody
from api.server.app_response import AppResponse, Wsgi, call_app, run_app, send_bytes, send_file
from api.server.early_checks import EarlyChecks
from api.server.held_bodies import HeldBodies, HeldBody
from api.server.refusal_cache import RefusalCache
from api.server.request_body import ClientDisconnected, Receive, read_body
from api.server.response_sender import Headers, ResponseSender, Send
from api.server.web_socket import WebSocket
from api.wsgi_environ import ABORT, DRAINING, PERMIT, REFUSED, is_small, make_environ
from inference.errors import ServerError, Unavailable
from inference.process.memory.malloc import trim_heap

Abort = Callable[[], None]

NUM_WORKERS = 16
NUM_LARGE_WORKERS = 1  # for large bodies, whose parsing and checking takes time and memory
BODY_IDLE_S = 10.0  # a request body that receives no bytes for this long is refused
LINGER_S = 1.0  # keep reading after a refusal, so that the client receives it
FINAL_FLUSH_S = 0.5  # time for aborted responses to send their last bytes

log = logging.getLogger(__name__)


class Bridge:
    """One WSGI app on one event loop.

    running         id(scope) of each unfinished request -> function that drops its connection
    senders         responses that are being streamed
    drain_deadline  time.monotonic() at which unfinished responses are aborted; None: no drain has started
    idle            set when no request is unfinished
    closed          the drain has ended; a request pipelined after an aborted one is dropped
    refusal_cache   the responses of requests that checks.reserve_permit refuses, or whose body fails
    workers         threads that run the app for requests with a small body; large_workers: with a large one
    """

    def __init__(
        self,
        app: Wsgi,
        checks: EarlyChecks,
        body_idle_s: float = BODY_IDLE_S,
        workers: int = NUM_WORKERS,
    ) -> None:
        self.app = app
        self.checks = checks
        self.body_idle_s = body_idle_s
        self.drain_deadline: float | None = None
        self.closed = False
        self.running: dict[int, Abort] = {}
        self.senders: set[ResponseSender] = set()
        self.idle = asyncio.Event()
        self.held_bodies = HeldBodies()
        self.workers = ThreadPoolExecutor(workers, thread_name_prefix="http")
        self.refusal_cache = RefusalCache(self._run_app)
        self.large_workers = ThreadPoolExecutor(NUM_LARGE_WORKERS, thread_name_prefix="http-large")

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await WebSocket(scope, receive, send, self).run()
            return
        abort = scope["extensions"][ABORT]
        if self.closed:
            abort()
            return
        self.running[id(scope)] = abort
        self.idle.clear()
        num_declared = int(dict(scope["headers"]).get(b"content-length", 0))
        held_body = HeldBody(self.held_bodies, num_declared)
        try:
            await self._handle(scope, receive, send, held_body)
        except ClientDisconnected:
            log.debug("client disconnected: %s %s", scope["method"], printable_path(scope["path"]))
        except Exception:
            log.exception("connection dropped: %s %s", scope["method"], printable_path(scope["path"]))
            abort()
        finally:
            held_body.release()
            del self.running[id(scope)]
            if not self.running:
                self.idle.set()

    async def drain(self, seconds: float) -> None:
        """Refuse new requests. After `seconds`, end those still running with an error in their dialect.

        Polls end at once: their clients ask again.
        """
        self.drain_deadline = time.monotonic() + seconds
        for sender in list(self.senders):
            if sender.response.is_poll:
                sender.abort(_shutdown_error())
        await self._wait_until_idle(seconds)
        for sender in list(self.senders):
            sender.abort(_shutdown_error())
        await self._wait_until_idle(FINAL_FLUSH_S)
        self.closed = True
        for abort in list(self.running.values()):
            abort()
        for workers in (self.workers, self.large_workers):
            workers.shutdown(wait=False, cancel_futures=True)

    def trim_heap(self) -> None:
        """Trim the heap on the thread for large bodies: no other thread can trim the end of its arena."""
        with contextlib.suppress(RuntimeError, CancelledError):  # the drain has ended
            self.large_workers.submit(trim_heap).result()

    async def _wait_until_idle(self, seconds: float) -> None:
        if not self.running:
            return
        try:
            async with asyncio.timeout(seconds):
                await self.idle.wait()
        except TimeoutError:
            log.warning("requests=%d still running after %.1f s", len(self.running), seconds)

    async def _handle(self, scope: dict[str, Any], receive: Receive, send: Send, held_body: HeldBody) -> None:
        try:
            self._check_key_of_large_body(scope)
            body = await read_body(scope, receive, self.checks.body_limit, self.body_idle_s, held_body)
        except ServerError as error:
            held_body.release()
            await self._refuse(scope, error.with_traceback(None), receive, send)
            return
        environ_updates: dict[str, Any] = {}
        permit = self.checks.reserve_permit(scope["method"], scope["path"], held_body.num_bytes)
        if isinstance(permit, Permit):
            environ_updates[PERMIT] = permit
        elif permit and self.drain_deadline is None:
            if isinstance(body, io.BytesIO) and held_body.num_bytes <= COUNTED_BYTES:
                await send_bytes(send, self.refusal_cache.refuse(scope, permit, body))
                return
            environ_updates[REFUSED] = permit
        environ = self._make_environ(scope, body) | environ_updates
        await self._respond(scope, environ, held_body, receive, send)

    def _make_environ(self, scope: dict[str, Any], body: BinaryIO) -> dict[str, Any]:
        environ = make_environ(scope, body)
        if self.drain_deadline is not None:
            environ[DRAINING] = max(0.0, self.drain_deadline - time.monotonic())
        return environ

    async def _respond(
        self,
        scope: dict[str, Any],
        environ: dict[str, Any],
        held_body: HeldBody,
        receive: Receive,
        send: Send,
    ) -> None:
        """Run the app, and send its response until it ends or the client disconnects."""
        disconnect = asyncio.ensure_future(wait_for_disconnect(receive))
        try:
            app_response = await self._run(environ, disconnect.done)
            held_body.release()
            if self.drain_deadline is not None:
                app_response.headers.append((b"connection", b"close"))
            if isinstance(app_response.body, ResponseBody):
                await self._stream(
                    app_response.body, app_response.headers, scope["extensions"][ABORT], disconnect, send
                )
            elif isinstance(app_response.body, FileBody):
                await send_file(send, app_response, app_response.body, disconnect.done)
            else:
                await send_bytes(send, app_response)
        finally:
            disconnect.cancel()

    def _check_key_of_large_body(self, scope: dict[str, Any]) -> None:
        """Raise Unauthorized for a request without a key, unless its body is small."""
        raw_headers = dict(scope["headers"])
        length = int(raw_headers.get(b"content-length", 0))
        if length <= UNUSED_BODY_BYTES and b"transfer-encoding" not in raw_headers:
            return
        headers = {name.decode("latin1"): value.decode("latin1") for name, value in raw_headers.items()}
        if error := self.checks.check_key(scope["method"], scope["path"], headers):
            raise error

    async def _refuse(self, scope: dict[str, Any], error: ServerError, receive: Receive, send: Send) -> None:
        """Send the refusal, then read for LINGER_S: closing with unread bytes would lose the response."""
        app_response = self.refusal_cache.refuse(scope, error, io.BytesIO())
        app_response.headers.append((b"connection", b"close"))
        await send_bytes(send, app_response, more=True)
        try:
            async with asyncio.timeout(LINGER_S):
                await wait_for_disconnect(receive)
        except TimeoutError:
            await send({"type": "http.response.body", "body": b""})

    async def _run(self, environ: dict[str, Any], is_disconnected: Callable[[], bool]) -> AppResponse:
        loop = asyncio.get_running_loop()
        workers = self.workers if is_small(environ) else self.large_workers
        try:
            return await loop.run_in_executor(workers, self._call, environ, is_disconnected)
        except asyncio.CancelledError:
            if self.closed:  # the request waited for a thread
                raise ClientDisconnected from None
            raise

    def _call(self, environ: dict[str, Any], is_disconnected: Callable[[], bool]) -> AppResponse:
        """Run the app, unless the client has left; called in a worker thread."""
        if is_disconnected():
            environ["wsgi.input"].close()
            raise ClientDisconnected
        return call_app(self.app, environ)

    def _run_app(self, environ: dict[str, Any]) -> AppResponse:
        return run_app(self.app, environ)

    async def _stream(
        self,
        response: ResponseBody,
        headers: Headers,
        abort: Abort,
        disconnect: asyncio.Future[None],
        send: Send,
    ) -> None:
        sender = ResponseSender(response, abort)
        disconnect.add_done_callback(sender.disconnect)
        self.senders.add(sender)
        try:
            if self.drain_deadline is not None and (
                response.is_poll or time.monotonic() > self.drain_deadline
            ):
                sender.abort(_shutdown_error())
            await sender.run(send, headers)
        finally:
            disconnect.remove_done_callback(sender.disconnect)
            self.senders.discard(sender)
            response.close()


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when the client has disconnected. Bytes that it still sends are dropped."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _shutdown_error() -> Unavailable:
    return Unavailable("the server is shutting down: the answer ends here")
