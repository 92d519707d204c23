"""API keys: which requests may pass. Knows the digests of the keys, not the keys."""

import hashlib
import hmac
import re

from flask import Flask, request

from inference.errors import Unauthorized

OPEN = frozenset({"health", "live", "ready", "version"})  # a path's last word
PAGE = re.compile(r"/playground(/|/[\w/-]+\.(css|js|svg))?", re.ASCII)  # asks for the key itself


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
    """Whether the request is about health or version, or loads a page; anybody may ask that, at any time."""
    told = path.rstrip("/").rpartition("/")[2] in OPEN or PAGE.fullmatch(path) is not None
    return method in ("GET", "HEAD") and told


def _given() -> bytes:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    key = token.strip() if scheme.lower() == "bearer" else request.headers.get("X-Api-Key", "")
    return key.encode("latin1")  # WSGI's way to carry bytes in a str


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
