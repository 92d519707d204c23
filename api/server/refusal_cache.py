"""The refusals that a server repeats: an equal request gets an equal response, without the app.

A refusal follows from the request and the error's message, so the app renders it once. Running the app takes
several times as long, when the engine uses all cores or thousands of clients are slow. Knows no dialect.
"""

import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from api.hooks.request_log import RequestLog, make_request_id
from api.server.app_response import AppResponse
from api.server.response_sender import Headers
from api.wsgi_environ import MESSAGE_STATE, RECEIVED, REFUSED, REQUEST_LOG, make_environ
from inference.errors import ServerError

MAX_REFUSALS = 256
MAX_KEY_BYTES = 8 << 10
REQUEST_ID = b"x-request-id"
OTHER_HEADERS = (REQUEST_ID, b"content-length")  # no refusal depends on them

Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class CachedRefusal:
    """A refusal as the app rendered it, without the id of its request."""

    status: int
    headers: Headers
    body: bytes
    request_log: RequestLog

    def repeat(self, scope: dict[str, Any]) -> AppResponse:
        """The refusal of a further request, which is logged and counted."""
        request_id = make_request_id(dict(scope["headers"]).get(REQUEST_ID, b"").decode("latin1"))
        received = scope["extensions"].get(RECEIVED) or time.perf_counter()
        request_log = self.request_log.repeat(request_id, received)
        request_log.finish(self.status)
        headers = [*self.headers, (REQUEST_ID, request_log.request_id.encode())]
        return AppResponse(self.status, headers, self.body)


class RefusalCache:
    """Refusals by the requests that they depend on. run_app: renders the first. Used on the event loop only.

    A key is the request's head; if the app has read the body, head and body.
    """

    def __init__(self, run_app: Callable[[dict[str, Any]], AppResponse]) -> None:
        self._run_app = run_app
        self._refusals: dict[Key, CachedRefusal] = {}

    def refuse(self, scope: dict[str, Any], error: ServerError, body: io.BytesIO) -> AppResponse:
        """The response to a refused request with a small body."""
        head, data = head_of(scope, error), body.getvalue()
        if (cached := self._refusals.get(head) or self._refusals.get((head, data))) is not None:
            return cached.repeat(scope)
        environ = make_environ(scope, body) | {REFUSED: error}
        app_response = self._run_app(environ)
        is_body_unread = data and body.tell() == 0
        self._store(head if is_body_unread else (head, data), app_response, environ[REQUEST_LOG])
        return app_response

    def _store(self, key: Key, app_response: AppResponse, request_log: RequestLog) -> None:
        status, headers, body = app_response
        assert isinstance(body, bytes), "a refusal is never streamed"
        if len(repr(key)) > MAX_KEY_BYTES:
            return
        if len(self._refusals) >= MAX_REFUSALS:
            del self._refusals[next(iter(self._refusals))]  # the oldest
        headers = [header for header in headers if header[0] != REQUEST_ID]
        self._refusals[key] = CachedRefusal(status, headers, body, request_log)


def head_of(scope: dict[str, Any], error: ServerError) -> Key:
    """All that a refusal can depend on but the body."""
    headers = tuple(header for header in scope["headers"] if header[0] not in OTHER_HEADERS)
    target = scope["method"], scope["raw_path"], scope["query_string"], MESSAGE_STATE in scope["extensions"]
    return *target, headers, type(error), error.message
