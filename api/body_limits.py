"""Refuses bodies that are too large or too slow, and new requests during shutdown.

server/asgi_bridge.py reads the body but knows no dialect. It puts the error into the WSGI environ, and this
module raises it inside the app, where the dialect renders it.
"""

from flask import Flask, request

from api.api_keys import is_open
from api.errors import Draining
from api.wsgi_environ import DRAINING, REFUSED
from inference.errors import TooLarge


def install(app: Flask, max_body_bytes: int) -> None:
    def check() -> None:
        if REFUSED in request.environ:
            raise request.environ[REFUSED]
        if (request.content_length or 0) > max_body_bytes:
            raise too_large(max_body_bytes)
        if DRAINING in request.environ and not is_open(request.method, request.path):
            raise Draining(request.environ[DRAINING])

    app.before_request(check)


def too_large(limit: int) -> TooLarge:
    return TooLarge(f"the body exceeds {limit} bytes: send a smaller request, or set MAX_BODY_MB")
