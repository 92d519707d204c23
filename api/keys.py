"""API keys: which requests may pass. Knows the digests of the keys, not the keys."""

import hashlib
import hmac

from flask import Flask, request

from inference.errors import Unauthorized

OPEN = frozenset({"health", "live", "ready", "version"})  # a path's last word


def install(app: Flask, keys: tuple[str, ...]) -> None:
    """Refuse every request without one of `keys`, but those about health and version. No keys: all pass."""
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
    """Whether the request is about health or version, which anybody may ask, at any time."""
    return method in ("GET", "HEAD") and path.rstrip("/").rpartition("/")[2] in OPEN


def _given() -> bytes:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    key = token.strip() if scheme.lower() == "bearer" else request.headers.get("X-Api-Key", "")
    return key.encode("latin1")  # WSGI's way to carry bytes in a str


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
