"""Who asked, and how it went: a request id on every response and one log line for every request.

A streamed answer is logged when it ends, with what it cost; its Answer says when that is.
"""

import logging
import re
import time
import uuid
from dataclasses import dataclass

from flask import Flask, Response, g, request

from api.stream import Answer
from inference.metrics import Metrics

SANE = re.compile(r"[\x21-\x7e]{1,128}")
ESCAPES = {code: f"\\x{code:02x}" for code in (*range(33), 127)}
CANCELLED = 499  # logged, never sent: the client left before the end

log = logging.getLogger("hearth.access")


def install(app: Flask, metrics: Metrics | None) -> None:
    """`metrics`, if given, counts the requests."""
    app.before_request(_arrive)
    app.after_request(lambda response: _leave(response, metrics))


def request_id(asked: str | None) -> str:
    """`asked` if it is printable ASCII without spaces, at most 128 characters; else a new one."""
    return asked if asked and SANE.fullmatch(asked) else uuid.uuid4().hex


def _arrive() -> None:
    g.started = time.perf_counter()
    g.request_id = request_id(request.headers.get("X-Request-Id"))


def _leave(response: Response, metrics: Metrics | None) -> Response:
    response.headers["X-Request-Id"] = g.request_id
    visit = Visit(
        f"request id={g.request_id} method={request.method} path={_printable(request.path)}",
        request.blueprint or "none",
        request.url_rule.rule if request.url_rule else "none",
        g.started,
        metrics,
    )
    body = response.response
    if isinstance(body, Answer):
        body.at_close(lambda: visit.end(_status(body), f" tokens={body.tokens}"))
    else:
        visit.end(response.status_code)
    return response


def _status(body: Answer) -> int:
    """What the answer came to: an error's status, even if it came too late to be sent."""
    if body.cancelled:
        return CANCELLED
    return body.failed if body.failed and body.status == 200 else body.status


@dataclass(frozen=True, slots=True)
class Visit:
    """A request on its way: what is known of it before its answer has ended."""

    line: str
    dialect: str
    route: str
    started: float
    metrics: Metrics | None

    def end(self, status: int, rest: str = "") -> None:
        """Log it, and count it."""
        ms = (time.perf_counter() - self.started) * 1e3
        log.info("%s status=%d ms=%.0f%s", self.line, status, ms, rest)
        if self.metrics:
            self.metrics.answered(self.dialect, self.route, status)


def _printable(path: str) -> str:
    """The path as one word of a log line."""
    return path.encode("ascii", "backslashreplace").decode().translate(ESCAPES)[:200]
