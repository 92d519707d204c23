"""Adds a request id to every response, and logs and counts every request.

A ResponseBody is logged when it closes, with its number of tokens.
"""

import logging
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from flask import Flask, Response, g, request

from api.response import ResponseBody
from api.wsgi_environ import RECEIVED, REQUEST_LOG
from inference.metrics import Metrics

VALID_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}")
ESCAPES = {code: f"\\x{code:02x}" for code in (*range(33), 127)}
MAX_PATH_CHARS = 200
# By the name of a blueprint; of others: INFO. What arrives at the link is logged by the process that sent it.
LOG_LEVELS: Mapping[str, int] = {"link": logging.DEBUG}
CANCELLED = 499  # logged, never sent: the client disconnected early (nginx's status)

log = logging.getLogger("hearth.access")
_random_ids = random.Random()  # uuid4 asks the system, and gives Python's lock away meanwhile


def install(app: Flask, metrics: Metrics | None) -> None:
    """Log every request, and count it in `metrics` unless that is None."""
    app.before_request(_before_request)
    app.after_request(partial(_after_request, metrics))


def make_request_id(requested_id: str | None) -> str:
    """`requested_id` if it is 1 to 128 printable ASCII characters without spaces; else a random id."""
    return (
        requested_id
        if requested_id and VALID_REQUEST_ID.fullmatch(requested_id)
        else f"{_random_ids.getrandbits(128):032x}"
    )


def printable_path(path: str) -> str:
    """`path` for a log line: ASCII without spaces and control characters, and not long."""
    ascii_path = path[:MAX_PATH_CHARS].encode("ascii", "backslashreplace").decode()
    return ascii_path.translate(ESCAPES)[:MAX_PATH_CHARS]


def _before_request() -> None:
    g.started = request.environ.get(RECEIVED) or time.perf_counter()
    g.request_id = make_request_id(request.headers.get("X-Request-Id"))


def _after_request(metrics: Metrics | None, response: Response) -> Response:
    response.headers["X-Request-Id"] = g.request_id
    request.environ[REQUEST_LOG] = request_log = RequestLog(
        request_id=g.request_id,
        request_line=f"method={request.method} path={printable_path(request.path)}",
        dialect=request.blueprint or "none",
        route=request.url_rule.rule if request.url_rule else "none",
        started=g.started,
        metrics=metrics,
    )
    body = response.response
    if isinstance(body, ResponseBody):
        body.on_close(partial(request_log.finish_stream, body))
    else:
        request_log.finish(response.status_code)
    return response


@dataclass(frozen=True, slots=True)
class RequestLog:
    """The request's part of a log line.

    request_line  method and path
    dialect       name of the blueprint
    route         URL rule, with its placeholders
    started       time.perf_counter() when the last byte of the request was read
    """

    request_id: str
    request_line: str
    dialect: str
    route: str
    started: float
    metrics: Metrics | None

    def repeat(self, request_id: str, started: float) -> "RequestLog":
        """The log of a further request, which differs in these alone."""
        return replace(self, request_id=request_id, started=started)

    def finish_stream(self, body: ResponseBody) -> None:
        """As `finish`. An error after status 200 was sent is logged with the error's own status."""
        late_error = body.error_status if body.status == 200 else 0
        self.finish(CANCELLED if body.cancelled else late_error or body.status, f" tokens={body.num_tokens}")

    def finish(self, status: int, suffix: str = "") -> None:
        """Write the log line and count the response."""
        seconds = time.perf_counter() - self.started
        log.log(
            LOG_LEVELS.get(self.dialect, logging.INFO),
            "request id=%s %s status=%d ms=%.0f%s",
            self.request_id,
            self.request_line,
            status,
            seconds * 1e3,
            suffix,
        )
        if self.metrics:
            self.metrics.record_response(self.dialect, self.route, status, seconds)
