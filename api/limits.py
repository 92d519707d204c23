"""What is refused before a dialect sees it: too large, too slow, or too late.

The server that reads requests (front/bridge.py) speaks no dialect: it leaves its refusal in the environ.
"""

from flask import Flask, request

from api.environ import DRAINING, REFUSED
from api.errors import Draining
from api.keys import is_open
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
    return TooLarge(f"the body has more than the {limit} bytes one request may have")
