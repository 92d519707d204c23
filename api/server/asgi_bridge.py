"""The Flask app as an ASGI app: an event loop does the I/O, worker threads run Flask.

Knows WSGI, ASGI and StreamedResponse. Does not know routes or dialects. When a client disconnects, its
StreamedResponse is closed at once, which cancels the generation.
"""

import asyncio
import io
import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from api.body_limits import BodyLimit
from api.errors import envelope
from api.json_body import MIMETYPE, encode
from api.response import StreamedResponse
from api.server.request_body import ClientDisconnected, Receive, read_body
from api.server.response_sender import Headers, ResponseSender, Send, encode_headers
from api.wsgi_environ import ABORT, DRAINING, REFUSED, make_environ
from inference.errors import ServerError, Unavailable

Abort = Callable[[], None]
Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

NUM_WORKERS = 16
BODY_IDLE_S = 10.0  # a request body that receives no bytes for this long is refused
LINGER_S = 1.0  # keep reading after a refusal, so that the client receives it
FINAL_FLUSH_S = 0.5  # time for aborted responses to send their last bytes

log = logging.getLogger(__name__)


class AppResponse(NamedTuple):
    status: int
    headers: Headers
    body: bytes | StreamedResponse


class Bridge:
    """One WSGI app on one event loop.

    running         id(scope) of each unfinished request -> function that drops its connection
    senders         responses that are being streamed
    drain_deadline  time.monotonic() at which unfinished responses are aborted; None: no drain has started
    idle            set when no request is unfinished
    closed          the drain has ended; a request pipelined after an aborted one is dropped
    """

    def __init__(
        self,
        app: Wsgi,
        body_limit: BodyLimit,
        body_idle_s: float = BODY_IDLE_S,
        workers: int = NUM_WORKERS,
    ) -> None:
        self.app = app
        self.body_limit = body_limit
        self.body_idle_s = body_idle_s
        self.drain_deadline: float | None = None
        self.closed = False
        self.running: dict[int, Abort] = {}
        self.senders: set[ResponseSender] = set()
        self.idle = asyncio.Event()
        self.workers = ThreadPoolExecutor(workers, thread_name_prefix="http")

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        abort = scope["extensions"][ABORT]
        if self.closed:
            abort()
            return
        self.running[id(scope)] = abort
        self.idle.clear()
        try:
            await self._handle(scope, receive, send)
        except ClientDisconnected:
            log.debug("client disconnected: %s %s", scope["method"], scope["path"])
        except Exception:
            log.exception("connection dropped: %s %s", scope["method"], scope["path"])
            abort()
        finally:
            del self.running[id(scope)]
            if not self.running:
                self.idle.set()

    async def drain(self, seconds: float) -> None:
        """Refuse new requests. After `seconds`, end those still running with an error in their dialect."""
        self.drain_deadline = time.monotonic() + seconds
        await self._wait_until_idle(seconds)
        for sender in list(self.senders):
            sender.abort(_shutdown_error())
        await self._wait_until_idle(FINAL_FLUSH_S)
        self.closed = True
        for abort in list(self.running.values()):
            abort()
        self.workers.shutdown(wait=False, cancel_futures=True)

    async def _wait_until_idle(self, seconds: float) -> None:
        if not self.running:
            return
        try:
            async with asyncio.timeout(seconds):
                await self.idle.wait()
        except TimeoutError:
            log.warning("requests=%d still running after %.1f s", len(self.running), seconds)

    async def _handle(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        refusal: ServerError | None = None
        try:
            body = await read_body(scope, receive, self.body_limit, self.body_idle_s)
        except ServerError as error:
            body, refusal = io.BytesIO(), error.with_traceback(None)
        environ = make_environ(scope, body)
        if self.drain_deadline is not None:
            environ[DRAINING] = max(0.0, self.drain_deadline - time.monotonic())
        if refusal:
            environ[REFUSED] = refusal
            await self._refuse(environ, receive, send)
            return
        disconnect = asyncio.ensure_future(wait_for_disconnect(receive))
        try:
            app_response = await self._run(environ, disconnect.done)
            if self.drain_deadline is not None:
                app_response.headers.append((b"connection", b"close"))
            if isinstance(app_response.body, StreamedResponse):
                await self._stream(
                    app_response.body, app_response.headers, scope["extensions"][ABORT], disconnect, send
                )
            else:
                await _send(send, app_response, app_response.body)
        finally:
            disconnect.cancel()

    async def _refuse(self, environ: dict[str, Any], receive: Receive, send: Send) -> None:
        """Send the refusal, then read for LINGER_S: closing with unread bytes would lose the response."""
        app_response = await self._run(environ, lambda: False)
        assert isinstance(app_response.body, bytes), "a refusal is never streamed"
        app_response.headers.append((b"connection", b"close"))
        await _send(send, app_response, app_response.body, more=True)
        try:
            async with asyncio.timeout(LINGER_S):
                await wait_for_disconnect(receive)
        except TimeoutError:
            await send({"type": "http.response.body", "body": b""})

    async def _run(self, environ: dict[str, Any], is_disconnected: Callable[[], bool]) -> AppResponse:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self.workers, self._call, environ, is_disconnected)
        except ClientDisconnected:
            raise
        except Exception:
            log.exception("the app failed: %s %s", environ["REQUEST_METHOD"], environ["RAW_URI"])
            body = encode(envelope("an unexpected error occurred"))
            return AppResponse(500, encode_headers([("Content-Type", MIMETYPE)]), body)

    def _call(self, environ: dict[str, Any], is_disconnected: Callable[[], bool]) -> AppResponse:
        """Run the app; called in a worker thread. A body other than a StreamedResponse is joined.

        The request's body is deleted when the app returns.
        """
        with environ["wsgi.input"]:
            if is_disconnected():
                raise ClientDisconnected
            head: list[Any] = []
            result = self.app(environ, lambda status, headers, exc_info=None: head.extend((status, headers)))
            status, headers = int(head[0].split()[0]), encode_headers(head[1])
            if isinstance(result, StreamedResponse):
                return AppResponse(status, headers, result)
            try:
                return AppResponse(status, headers, b"".join(result))
            finally:
                getattr(result, "close", lambda: None)()

    async def _stream(
        self,
        response: StreamedResponse,
        headers: Headers,
        abort: Abort,
        disconnect: asyncio.Future[None],
        send: Send,
    ) -> None:
        sender = ResponseSender(response, abort)
        disconnect.add_done_callback(sender.disconnect)
        self.senders.add(sender)
        try:
            if self.drain_deadline is not None and time.monotonic() > self.drain_deadline:
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


async def _send(send: Send, app_response: AppResponse, body: bytes, more: bool = False) -> None:
    headers = app_response.headers
    if app_response.status not in (204, 304) and all(name != b"content-length" for name, _ in headers):
        headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": app_response.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": more})


def _shutdown_error() -> Unavailable:
    return Unavailable("the server is shutting down: the answer ends here")
