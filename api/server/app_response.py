"""The app's response to one request, and sending it: bytes at once, a file as the client takes it.

A response is sent on the event loop. A ResponseBody is sent by response_sender.py.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from api.body.file_body import FileBody
from api.body.json_body import MIMETYPE, encode
from api.errors import envelope
from api.hooks.request_log import printable_path
from api.response import ResponseBody
from api.server.response_sender import Headers, Send, encode_headers
from inference.process.rust_panic import raises_panics

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

log = logging.getLogger(__name__)


class AppResponse(NamedTuple):
    status: int
    headers: Headers
    body: bytes | ResponseBody | FileBody


def call_app(app: Wsgi, environ: dict[str, Any]) -> AppResponse:
    """The app's response, also if it fails. The request's body is deleted when the app returns."""
    try:
        with environ["wsgi.input"]:
            return run_app(app, environ)
    except Exception:
        path = printable_path(environ["RAW_URI"])
        log.exception("the app failed: %s %s", environ["REQUEST_METHOD"], path)
        body = encode(envelope("an unexpected error occurred", 500))
        return AppResponse(500, encode_headers([("Content-Type", MIMETYPE)]), body)


@raises_panics
def run_app(app: Wsgi, environ: dict[str, Any]) -> AppResponse:
    """The app's response. A body that is no ResponseBody and no file is joined."""
    head: list[Any] = []
    result = app(environ, lambda status, headers, exc_info=None: head.extend((status, headers)))
    status, headers = int(head[0].split()[0]), encode_headers(head[1])
    if isinstance(result, ResponseBody | FileBody):
        return AppResponse(status, headers, result)
    try:
        return AppResponse(status, headers, b"".join(result))
    finally:
        getattr(result, "close", lambda: None)()


async def send_bytes(send: Send, app_response: AppResponse, more: bool = False) -> None:
    """Send a response whose body is bytes. more: the caller sends the end of the body."""
    status, headers, body = app_response
    assert isinstance(body, bytes)
    if status not in (204, 304) and all(name != b"content-length" for name, _ in headers):
        headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def send_file(
    send: Send, app_response: AppResponse, body: FileBody, is_disconnected: Callable[[], bool]
) -> None:
    """Send the chunks as the client takes them."""
    headers = [*app_response.headers, (b"content-length", str(body.size).encode())]
    try:
        await send({"type": "http.response.start", "status": app_response.status, "headers": headers})
        while not is_disconnected() and (chunk := await asyncio.to_thread(body.read_chunk)):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        body.close()
