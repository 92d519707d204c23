"""Who asked, and how it went: a request id on every response and one log line for every request.

A streamed answer is logged when it ends, with what it cost; its Answer says when that is.
"""

import logging
import re
import time
import uuid

from flask import Flask, Response, g, request

from api.stream import Answer

SANE = re.compile(r"[\x21-\x7e]{1,128}")
ESCAPES = {code: f"\\x{code:02x}" for code in (*range(33), 127)}
CANCELLED = 499  # logged, never sent: the client left before the end

log = logging.getLogger("hearth.access")


def install(app: Flask) -> None:
    app.before_request(_arrive)
    app.after_request(_leave)


def request_id(asked: str | None) -> str:
    """`asked` if it is printable ASCII without spaces, at most 128 characters; else a new one."""
    return asked if asked and SANE.fullmatch(asked) else uuid.uuid4().hex


def _arrive() -> None:
    g.started = time.perf_counter()
    g.request_id = request_id(request.headers.get("X-Request-Id"))


def _leave(response: Response) -> Response:
    response.headers["X-Request-Id"] = g.request_id
    line = f"request id={g.request_id} method={request.method} path={_printable(request.path)}"
    started, body = g.started, response.response
    if isinstance(body, Answer):
        body.at_close(lambda: _log_answer(line, body, started))
    else:
        _log(line, response.status_code, started)
    return response


def _log_answer(line: str, body: Answer, started: float) -> None:
    _log(line, CANCELLED if body.cancelled else body.status, started, f" tokens={body.tokens}")


def _log(line: str, status: int, started: float, rest: str = "") -> None:
    log.info("%s status=%d ms=%.0f%s", line, status, (time.perf_counter() - started) * 1e3, rest)


def _printable(path: str) -> str:
    """The path as one word of a log line."""
    return path.encode("ascii", "backslashreplace").decode().translate(ESCAPES)[:200]
