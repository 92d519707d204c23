"""API keys: which requests may pass. Knows the digests of the keys, not the keys."""

import hashlib
import hmac
import re

from flask import Flask, request

from inference.errors import Unauthorized

OPEN_WORDS = frozenset({"health", "live", "ready", "version"})  # a path's last: every dialect has its own
PING = "/ping"  # POST, too
OPEN_PATHS = frozenset({"/", "/info", "/metrics", "/openapi.json", "/api-doc/openapi.json", PING})
READS = ("GET", "HEAD")
PAGE = re.compile(r"/(playground|docs)(/|/[\w/-]+\.(css|js|svg))?", re.ASCII)  # asks for the key itself


def install(app: Flask, keys: tuple[str, ...]) -> None:
    """Refuse every request without one of `keys`, but those that `is_open`. No keys: all pass."""
    digests = [_digest(key.encode()) for key in keys]

    def check() -> None:
        if is_open(request.method, request.path):
            return
        given = _digest(_given())
        if not sum(hmac.compare_digest(given, digest) for digest in digests):
            raise Unauthorized("this server asks for an API key: send the header Authorization: Bearer KEY")

    if keys:
        app.before_request(check)


def is_open(method: str, path: str) -> bool:
    """Whether anybody may ask it, at any time: health, what is served, a page, a route's methods."""
    if method not in READS:
        return method == "OPTIONS" or path == PING
    last = path.rstrip("/").rpartition("/")[2]
    return last in OPEN_WORDS or path in OPEN_PATHS or PAGE.fullmatch(path) is not None


def _given() -> bytes:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    key = token.strip() if scheme.lower() == "bearer" else request.headers.get("X-Api-Key", "")
    return key.encode("latin1")  # WSGI's way to carry bytes in a str


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
