"""Limits the number of concurrent HTTP requests that generate or embed, over all models and dialects.

A view calls acquire_permit before it submits its first prompt: reading and checking a body takes no permit,
and a request with several prompts takes one. The permit returns when the response has ended. While none is
free, the server refuses a request of a route that takes one before its body is parsed.
"""

import threading
import weakref
from collections.abc import Callable

from flask import Flask, Response, current_app, g

from api.response import StreamedResponse
from api.route_lookup import make_route_lookup
from inference.drain_rate import MIN_RETRY_S, DrainRate, overloaded
from inference.errors import Overloaded
from inference.models import Models

PERMITS = "permits"  # key in app.extensions
EarlyRefusal = Callable[[str, str], Overloaded | None]  # (method, path) -> why it is refused; None: it is not


class Permits:
    """The free permits, and when the next one is expected to return. Thread-safe."""

    def __init__(self, limit: int, models: Models) -> None:
        self.num_free = limit
        self._models = models
        self._drain_rate = DrainRate(unknown_s=MIN_RETRY_S)
        self._lock = threading.Lock()

    def acquire(self) -> None:
        """Take a permit. Raises Overloaded if none is free."""
        with self._lock:
            if self.num_free:
                self.num_free -= 1
                return
        raise self.overloaded()

    def release(self) -> None:
        with self._lock:
            self.num_free += 1
            self._drain_rate.record(1)

    def overloaded(self) -> Overloaded:
        """The error of a refused request. A permit returns when the first of the running answers ends."""
        ends = [backend.seconds_until_end() for backend in self._models.backends]
        with self._lock:
            drained_s = self._drain_rate.seconds_for(1)
        return overloaded(min((end for end in ends if end is not None), default=None), drained_s)


def install(app: Flask, limit: int, models: Models) -> Permits:
    permits = app.extensions[PERMITS] = Permits(limit, models)
    app.after_request(_release_at_end)
    return permits


def make_early_refusal(app: Flask, root_path: str = "") -> EarlyRefusal:
    """The function that refuses a request for want of a permit, before its body is parsed."""
    permits: Permits = app.extensions[PERMITS]
    find_operation = make_route_lookup(app, root_path)

    def refuse(method: str, path: str) -> Overloaded | None:
        if permits.num_free:
            return None
        operation = find_operation(method, path)
        return permits.overloaded() if operation and operation.takes_permit else None

    return refuse


def acquire_permit() -> None:
    """Take a permit for the current HTTP request, unless it has one. Raises Overloaded if none is free."""
    if "permits" in g:
        return
    permits: Permits = current_app.extensions[PERMITS]
    permits.acquire()
    g.permits = permits


def hand_over_permit() -> Callable[[], None]:
    """Take the permit off the current HTTP request, for work that outlasts it.

    Call the result once, when the work ends.
    """
    permits: Permits = g.pop("permits")
    return permits.release


def _release_at_end(response: Response) -> Response:
    """Release the request's permit: before the last bytes, as the client may then send its next request."""
    permits = g.pop("permits", None)
    if permits is None:
        return response
    if isinstance(response.response, StreamedResponse):
        # A finalizer runs at most once, at the latest when the response is garbage collected.
        release = weakref.finalize(response.response, permits.release)
        release.atexit = False
        response.response.on_end(release)
    else:
        permits.release()
    return response
