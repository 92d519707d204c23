"""The app's response to one request, and sending it: bytes at once, a file as the client takes it.

Runs on the event loop. A ResponseBody is sent by response_sender.py.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from api.body.file_body import FileBody
from api.response import ResponseBody
from api.server.response_sender import Headers, Send


class AppResponse(NamedTuple):
    status: int
    headers: Headers
    body: bytes | ResponseBody | FileBody


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
