"""What went wrong at an upstream, as the error for the client, and whether the request may be sent again."""

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from inference.errors import BadRequest, Overloaded, ServerError, TooLarge, TooLong, Unavailable
from inference.untrusted_json import decode_json

MAX_MESSAGE_CHARS = 300
MAX_READ_CHARS = (
    4096  # of a message, which may have the size of an answer; addresses and keys in it are removed
)
MIN_RETRY_AFTER_S, MAX_RETRY_AFTER_S, DEFAULT_RETRY_AFTER_S = 1.0, 60.0, 5.0
RETRIED_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
REFUSING_STATUSES = frozenset({401, 403, 404, 405})
BAD_REQUEST_STATUSES = frozenset({400, 422})
TOO_LONG_PHRASES = (
    "maximum context length",
    "must be <=",
    "context_length_exceeded",
    "exceeds the context",
    "exceeds the available context",
    "longer than the model's context length",  # SGLang
)
ADDRESS_OR_KEY = re.compile(r"\b\w+://\S+|\b(?:sk|hf|gsk|xai)[-_][\w-]{6,}|(?i:bearer)\s+\S+")
CONTROL_CHARS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class UpstreamFailure(Exception):
    """A request to an upstream failed.

    error        for the client
    outcome      label of the metrics: what failed
    is_retried   the same request may succeed if it is sent again
    retry_after  seconds that the upstream wants to pass before; None: it does not say
    """

    def __init__(
        self, error: ServerError, outcome: str, *, is_retried: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.outcome = outcome
        self.is_retried = is_retried
        self.retry_after = retry_after


class Resting(Unavailable):
    """No server of the model takes requests for `retry_after` seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


def resting(model: str, problem: str, rest_s: float) -> UpstreamFailure:
    """All servers of the model have failed. rest_s: seconds until the first of them may be tried."""
    error = Resting(f"no server of {model} takes requests for now: {problem}", max(MIN_RETRY_AFTER_S, rest_s))
    return UpstreamFailure(error, "resting")


def unreachable(model: str, reason: str) -> UpstreamFailure:
    server = f"the server behind {model}" if model else "the server"  # which names its model itself
    error = Unavailable(f"{server} cannot be reached: {clean(reason)}")
    return UpstreamFailure(error, "unreachable", is_retried=True)


def late(model: str, seconds: float) -> UpstreamFailure:
    error = Unavailable(f"the server behind {model} did not answer in {seconds:g} s")
    return UpstreamFailure(error, "late", is_retried=True)


def broken(model: str, reason: str) -> UpstreamFailure:
    """What came is not an answer, or not a whole one."""
    error = Unavailable(f"the server behind {model} sent a broken answer: {clean(reason)}")
    return UpstreamFailure(error, "broken", is_retried=True)


def refused(model: str, reason: str) -> UpstreamFailure:
    """The server does not take requests of this server."""
    error = Unavailable(f"the server behind {model} refuses this server ({reason})")
    return UpstreamFailure(error, "refused")


def changed(model: str, problem: str) -> UpstreamFailure:
    """The server has restarted, and may not answer for the model any more."""
    error = Unavailable(f"the server behind {model} has restarted: {clean(problem)}")
    return UpstreamFailure(error, "changed", is_retried=True)


def too_large(model: str, limit: int) -> UpstreamFailure:
    error = TooLarge(
        f"the answer of the server behind {model} is larger than {limit / 1e6:.0f} MB: "
        "send fewer inputs at a time, or shorter ones"
    )
    return UpstreamFailure(error, "too_large")


def from_status(model: str, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamFailure:
    """The failure that a response without an answer stands for."""
    message = clean(message_in(body)) or f"status {status}"
    if 300 <= status < 400:
        error: ServerError = Unavailable(f"the server behind {model} redirects, which is not followed")
        return UpstreamFailure(error, "redirect")
    if status in BAD_REQUEST_STATUSES:
        return UpstreamFailure(bad_request(model, message), "bad_request")
    if status in REFUSING_STATUSES:
        return refused(model, f"status {status}")
    if status == 413:
        return UpstreamFailure(TooLarge(f"the server behind {model}: {message}"), "bad_request")
    retry_after = read_retry_after(headers.get("Retry-After", ""))
    if status == 429:
        error = Overloaded(retry_after or DEFAULT_RETRY_AFTER_S)
        return UpstreamFailure(error, "overloaded", is_retried=True, retry_after=retry_after)
    reason = f"the server behind {model} failed: {message}"
    if status == 503 and retry_after:
        error = Resting(reason, retry_after)
        return UpstreamFailure(error, "unavailable", is_retried=True, retry_after=retry_after)
    error = Unavailable(reason)
    is_retried = status in RETRIED_STATUSES
    return UpstreamFailure(error, "failed", is_retried=is_retried, retry_after=retry_after)


def in_band(model: str, report: Any) -> UpstreamFailure:
    """The failure that an event of an answer reports: a text, or an object with a message."""
    message = report.get("message", report) if isinstance(report, Mapping) else report
    error = Unavailable(f"the server behind {model} failed: {clean(str(message))}")
    return UpstreamFailure(error, "failed", is_retried=True)


def bad_request(model: str, message: str) -> BadRequest:
    """A refusal of the request itself. A prompt that is too long has its own class, which clients act on."""
    rule = f"the server behind {model} refuses the request: {message}"
    if any(phrase in message for phrase in TOO_LONG_PHRASES):
        numbers = [int(each) for each in re.findall(r"\b\d{2,9}\b", message)[:2]]
        limit, length = sorted(numbers) if len(numbers) == 2 else (*numbers, 0, 0)[:2]
        return TooLong("", limit, length, rule)
    return BadRequest("", rule)


def message_in(body: bytes) -> str:
    """The message of an error's body, in the shapes of the known servers; else the body's text."""
    try:
        document = decode_json(body)
    except ValueError:
        return body.decode(errors="replace")
    for key in ("error", "detail", "message"):
        if isinstance(document, dict) and document.get(key):
            value = document[key]
            return str(value.get("message") or value) if isinstance(value, dict) else str(value)
    return str(document)


def clean(message: str) -> str:
    """The message on one line, cut to MAX_MESSAGE_CHARS, without addresses, keys and control characters."""
    message = CONTROL_CHARS.sub(" ", ADDRESS_OR_KEY.sub("…", message[:MAX_READ_CHARS])).strip()
    return message if len(message) <= MAX_MESSAGE_CHARS else f"{message[:MAX_MESSAGE_CHARS]}…"


def read_retry_after(value: str) -> float | None:
    """The seconds of a Retry-After header, a number or a date, between 1 and 60; None: it has none."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError, IndexError):
            return None
    return min(MAX_RETRY_AFTER_S, max(MIN_RETRY_AFTER_S, seconds)) if seconds == seconds else None
