"""Limits the number of concurrent HTTP requests that generate or embed, over all models and dialects.

A view calls acquire_permit before it submits its first prompt: reading and checking a body takes no permit,
and a request with several prompts takes one. The permit returns when the response has ended.
"""

import threading
import weakref

from flask import Flask, Response, current_app, g

from api.response import StreamedResponse
from inference.errors import Overloaded

RETRY_AFTER_S = 1.0
PERMITS = "permits"  # key in app.extensions: the semaphore of the free permits


def install(app: Flask, limit: int) -> None:
    app.extensions[PERMITS] = threading.BoundedSemaphore(limit)
    app.after_request(_release_at_end)


def acquire_permit() -> None:
    """Take a permit for the current HTTP request, unless it has one. Raises Overloaded if none is free."""
    if "permits" in g:
        return
    permits = current_app.extensions[PERMITS]
    if not permits.acquire(blocking=False):
        raise Overloaded(RETRY_AFTER_S)
    g.permits = permits


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
