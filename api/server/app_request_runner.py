"""Runs a request of a batch as if a client had sent it: through the app, with the rights of the creator.

Knows WSGI and ResponseBody. The app finds in the environ that it is a request of a batch (BATCH_CREATOR).
"""

import asyncio
import io
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from api.batches.request_runner import LineAnswer, OnAnswer
from api.body.json_body import MIMETYPE
from api.response import ResponseBody
from api.server.app_response import AppResponse, Wsgi, call_app
from api.wsgi_environ import BATCH_CREATOR, make_environ


class AppRequestRunner:
    """A RequestRunner. loop: the server's, on which backends deliver events."""

    def __init__(self, app: Wsgi, loop: asyncio.AbstractEventLoop) -> None:
        self._app = app
        self._loop = loop

    def start(self, body: bytes, endpoint: str, creator: bytes, on_answer: OnAnswer) -> Callable[[], object]:
        app_response = call_app(self._app, line_environ(body, endpoint, creator))
        if isinstance(app_response.body, bytes):
            on_answer(to_line_answer(app_response, app_response.status, app_response.body))
            return lambda: None
        assert isinstance(app_response.body, ResponseBody), "no request of a batch is answered with a file"
        running = RunningResponse(app_response, app_response.body, on_answer)
        self._post(running.start)
        return lambda: self._post(running.close)

    def _post(self, function: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the server has stopped, and the loop is closed: the engine ends all
            self._loop.call_soon_threadsafe(function)


class RunningResponse:
    """An answer that is being generated. On the loop."""

    def __init__(self, app_response: AppResponse, body: ResponseBody, on_answer: OnAnswer) -> None:
        self._app_response = app_response
        self._body = body
        self._on_answer = on_answer
        self._chunks: list[bytes] = []

    def start(self) -> None:
        if not self._body.has_ended:
            self._body.start(self._receive)

    def close(self) -> None:
        self._body.close()

    def _receive(self, data: bytes) -> None:
        self._chunks.append(data)
        if self._body.has_ended:
            status, headers = self._body.status, self._body.headers
            line_answer = to_line_answer(self._app_response, status, b"".join(self._chunks), headers)
            self._body.close()
            self._on_answer(line_answer)


def to_line_answer(
    app_response: AppResponse, status: int, body: bytes, late_headers: Mapping[str, str] | None = None
) -> LineAnswer:
    """late_headers: those that a ResponseBody has at its end."""
    headers = {name.decode("latin1"): value.decode("latin1") for name, value in app_response.headers}
    headers |= {name.lower(): value for name, value in (late_headers or {}).items()}
    retry_after_s = float(headers["retry-after"]) if "retry-after" in headers else None
    return LineAnswer(status, headers.get("x-request-id", ""), body, retry_after_s)


def line_environ(body: bytes, endpoint: str, creator: bytes) -> dict[str, Any]:
    scope = {
        "method": "POST",
        "raw_path": endpoint.encode(),
        "query_string": b"",
        "server": None,
        "client": None,
        "http_version": "1.1",
        "scheme": "http",
        "headers": [(b"content-type", MIMETYPE.encode())],
    }
    return make_environ(scope, io.BytesIO(body)) | {BATCH_CREATOR: creator}
