"""The Flask app as an ASGI app: a worker runs Flask up to the Response, an Answer then lives on the loop.

Knows WSGI, ASGI and Answers; no route and no dialect. A client who leaves closes its Answer, at any time.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from api.encode import MIMETYPE, encode
from api.environ import ABORT, DRAINING, REFUSED, make_environ
from api.errors import envelope
from api.front.intake import Gone, Receive, departure, read_body
from api.front.outlet import Headers, Outlet, Send, encoded
from api.stream import Answer
from inference.errors import Unavailable

Abort = Callable[[], None]
Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

WORKERS = 16
SILENCE_S = 10.0  # a body that brings nothing for so long is given up
LINGER_S = 1.0  # a refused body is read on for so long, for its sender to see the refusal
LAST_WORDS_S = 0.5  # what cut answers have to get their ends out

log = logging.getLogger(__name__)


class Reply(NamedTuple):
    status: int
    headers: Headers
    body: bytes | Answer


class Bridge:
    """One app behind one event loop.

    running   how to drop each request that is not answered yet, by its scope's id
    draining  None, or the time (monotonic) at which what still runs is cut
    closed    the drain is over: a request that was waiting behind a cut one is dropped with its connection
    """

    def __init__(
        self, app: Wsgi, max_body: int, silence_s: float = SILENCE_S, workers: int = WORKERS
    ) -> None:
        self.app = app
        self.max_body = max_body
        self.silence_s = silence_s
        self.draining: float | None = None
        self.closed = False
        self.running: dict[int, Abort] = {}
        self.outlets: set[Outlet] = set()
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
            await self._answer(scope, receive, send)
        except Gone:
            log.debug("client left: %s %s", scope["method"], scope["path"])
        except Exception:
            log.exception("connection dropped: %s %s", scope["method"], scope["path"])
            abort()
        finally:
            del self.running[id(scope)]
            if not self.running:
                self.idle.set()

    async def drain(self, seconds: float) -> None:
        """Refuse new requests, give running ones `seconds`, then end them in their dialect's words."""
        self.draining = time.monotonic() + seconds
        await self._until_idle(seconds)
        for outlet in list(self.outlets):
            outlet.cut(_shut_down())
        await self._until_idle(LAST_WORDS_S)
        self.closed = True
        for abort in list(self.running.values()):
            abort()
        self.workers.shutdown(wait=False, cancel_futures=True)

    async def _until_idle(self, seconds: float) -> None:
        if not self.running:
            return
        try:
            async with asyncio.timeout(seconds):
                await self.idle.wait()
        except TimeoutError:
            log.warning("requests=%d still run after %.1f s", len(self.running), seconds)

    # One request -----------------------------------------------------------------------------------------

    async def _answer(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        body, refused = await read_body(scope, receive, self.max_body, self.silence_s)
        environ = make_environ(scope, body)
        if self.draining is not None:
            environ[DRAINING] = max(0.0, self.draining - time.monotonic())
        if refused:
            environ[REFUSED] = refused
            await self._refuse(environ, receive, send)
            return
        gone = asyncio.ensure_future(departure(receive))
        try:
            reply = await self._run(environ, gone.done)
            if self.draining is not None:
                reply.headers.append((b"connection", b"close"))
            if isinstance(reply.body, Answer):
                await self._hand_over(reply.body, reply.headers, scope["extensions"][ABORT], gone, send)
            else:
                await _send(send, reply, reply.body)
        finally:
            gone.cancel()

    async def _refuse(self, environ: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer, then read on for a while: a connection closed with unread bytes loses the answer too."""
        reply = await self._run(environ, lambda: False)
        assert isinstance(reply.body, bytes), "a refusal is never an Answer"
        reply.headers.append((b"connection", b"close"))
        await _send(send, reply, reply.body, more=True)
        try:
            async with asyncio.timeout(LINGER_S):
                await departure(receive)
        except TimeoutError:
            await send({"type": "http.response.body", "body": b""})

    async def _run(self, environ: dict[str, Any], gone: Callable[[], bool]) -> Reply:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self.workers, self._call, environ, gone)
        except Gone:
            raise
        except Exception:
            log.exception("the app failed: %s %s", environ["REQUEST_METHOD"], environ["RAW_URI"])
            body = encode(envelope("an unexpected error occurred"))
            return Reply(500, encoded([("Content-Type", MIMETYPE)]), body)

    def _call(self, environ: dict[str, Any], gone: Callable[[], bool]) -> Reply:
        """Run the app, in a worker. What is not an Answer is read to its end here."""
        if gone():
            raise Gone
        head: list[Any] = []
        result = self.app(environ, lambda status, headers, exc_info=None: head.extend((status, headers)))
        status, headers = int(head[0].split()[0]), encoded(head[1])
        if isinstance(result, Answer):
            return Reply(status, headers, result)
        try:
            return Reply(status, headers, b"".join(result))
        finally:
            getattr(result, "close", lambda: None)()

    async def _hand_over(
        self, answer: Answer, headers: Headers, abort: Abort, gone: asyncio.Future[None], send: Send
    ) -> None:
        outlet = Outlet(answer, abort)
        gone.add_done_callback(lambda _: outlet.leave())
        self.outlets.add(outlet)
        try:
            if self.draining is not None and time.monotonic() > self.draining:
                outlet.cut(_shut_down())
            await outlet.run(send, headers)
        finally:
            self.outlets.discard(outlet)
            answer.close()


async def _send(send: Send, reply: Reply, body: bytes, more: bool = False) -> None:
    headers = reply.headers
    if reply.status not in (204, 304) and all(name != b"content-length" for name, _ in headers):
        headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": more})


def _shut_down() -> Unavailable:
    return Unavailable("the server is shutting down: the answer ends here")
