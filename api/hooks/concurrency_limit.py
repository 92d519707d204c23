"""Limits the number of concurrent HTTP requests that generate or embed, over all models and dialects.

A view calls acquire_permit before it submits its first prompt; a request with several prompts takes one. The
permit returns when the response has ended. For a request with a small body the server reserves the permit
before the app runs, and refuses the request if none is free. A large body takes none while it is checked.
"""

import threading
import weakref
from collections.abc import Callable

from flask import Flask, Response, current_app, g, request

from api.body.large_json import COUNTED_BYTES
from api.response import ResponseBody
from api.route_lookup import make_route_lookup
from api.wsgi_environ import BATCH_CREATOR, PERMIT
from inference.drain_rate import MIN_RETRY_S, DrainRate, overloaded
from inference.errors import Overloaded
from inference.models import Models

PERMITS = "permits"  # key in app.extensions


class Permit:
    """One of the Permits: it returns when it is released, at the latest when it is garbage-collected."""

    def __init__(self, permits: "Permits") -> None:
        self._finalizer = weakref.finalize(self, permits.take_back)
        self._finalizer.atexit = False

    def release(self) -> None:
        """Return the permit. Idempotent."""
        self._finalizer()


class Permits:
    """The free permits, and when the next one is expected to return. Thread-safe."""

    def __init__(self, limit: int, models: Models) -> None:
        self.num_free = limit
        self._models = models
        self._drain_rate = DrainRate(unknown_s=MIN_RETRY_S)
        self._lock = threading.RLock()  # while this thread holds it, a permit may be garbage-collected

    def acquire(self) -> Permit:
        """Take a permit. Raises Overloaded if none is free."""
        permit = self.take()
        if permit is None:
            raise self.overloaded()
        return permit

    def take(self) -> Permit | None:
        """Take a permit; None if none is free."""
        with self._lock:
            if not self.num_free:
                return None
            self.num_free -= 1
            return Permit(self)

    def take_back(self) -> None:
        with self._lock:
            self.num_free += 1
            self._drain_rate.record(1)

    def overloaded(self) -> Overloaded:
        """The error of a refused request. A permit returns when the first of the running answers ends."""
        ends = [backend.seconds_until_end() for backend in self._models.backends]
        with self._lock:
            drained_s = self._drain_rate.seconds_for(1)
        return overloaded(min((end for end in ends if end is not None), default=None), drained_s)


# (method, path, bytes of the body) -> the request's permit, or why it is refused; None: it needs none yet
ReservePermit = Callable[[str, str, int], Permit | Overloaded | None]


def install(app: Flask, limit: int, models: Models) -> Permits:
    permits = app.extensions[PERMITS] = Permits(limit, models)
    app.after_request(_release_at_end)
    return permits


def make_permit_reservation(app: Flask, root_path: str = "") -> ReservePermit:
    """The function that reserves a permit for a request, or refuses it, before its body is parsed."""
    permits: Permits = app.extensions[PERMITS]
    find_operation = make_route_lookup(app, root_path)

    def reserve(method: str, path: str, num_bytes: int) -> Permit | Overloaded | None:
        operation = find_operation(method, path)
        if not (operation and operation.takes_permit):
            return None
        if num_bytes > COUNTED_BYTES:
            return None if permits.num_free else permits.overloaded()
        return permits.take() or permits.overloaded()

    return reserve


def acquire_permit() -> None:
    """Take a permit for the current HTTP request, unless it has one. Raises Overloaded if none is free.

    A request of a batch takes none: it has a limit of its own.
    """
    if "permit" not in g and BATCH_CREATOR not in request.environ:
        permits: Permits = current_app.extensions[PERMITS]
        g.permit = request.environ.pop(PERMIT, None) or permits.acquire()


def hand_over_permit() -> Callable[[], None]:
    """Take the permit off the current HTTP request, for work that outlasts it.

    Call the result once, when the work ends.
    """
    permit: Permit = g.pop("permit")
    return permit.release


def _release_at_end(response: Response) -> Response:
    """Release the request's permit: before the last bytes, as the client may then send its next request."""
    permit: Permit | None = g.pop("permit", None)
    if permit is not None and isinstance(response.response, ResponseBody):
        response.response.on_end(permit.release)
    elif permit := permit or request.environ.pop(PERMIT, None):
        permit.release()
    return response
