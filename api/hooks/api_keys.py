"""Checks API keys, and decides which requests need one. Stores digests of the keys, not the keys."""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence

from flask import Flask, g, request
from werkzeug.datastructures import Headers as WerkzeugHeaders

from api.wsgi_environ import BATCH_CREATOR, without_root_path
from inference.errors import Unauthorized

# Every version of the Llama Stack dialect has its own health and version routes.
STATUS_PATH = re.compile(r"(/alpha|/v1|/passthrough/v1)?/(health|version)/?|/health/(live|ready)/?")
TINKER_KEY_PREFIX = "tml-"  # Tinker's client refuses a key that begins otherwise
PING = "/ping"  # POST is open as well
OPEN_PATHS = frozenset(
    {
        "/",
        "/info",
        "/metrics",
        "/openapi.json",
        "/api-doc/openapi.json",
        "/llms.txt",
        "/README.md",
        "/api/v1/healthz",
        PING,
    }
)
NO_KEY = b""  # digest of the key of a client that sent none, to a server without keys
READ_METHODS = ("GET", "HEAD")
SIGNED_PATH = re.compile(r"/api/v1/downloads/.+")  # the route checks the signature in the path
# The pages are open. The API requests that they send need a key.
PAGE_PATH = re.compile(
    r"/playground\.html|/(playground|docs|tuning)(/|/[\w/-]+\.(css|js|svg|png|md))?", re.ASCII
)

HOW_TO_SEND = (
    "this server requires an API key: send the header Authorization: Bearer KEY, or X-Api-Key: KEY, or the "
    "key as the password of basic authentication (curl --user any:KEY)"
)

Headers = Mapping[str, str]  # of a request, by their names in lower case
KeyCheck = Callable[[str, str, Headers], Unauthorized | None]  # (method, path, headers) -> why it is refused


def install(app: Flask, keys: tuple[str, ...]) -> None:
    """Refuse requests without one of `keys`, unless `is_open`. With no `keys`, every request passes.

    A request of a batch has the key of the batch's creator, who may have had none.
    """
    digests = _digests(keys)

    def check_key() -> None:
        if is_open(request.method, request.path) or request.environ.get(BATCH_CREATOR) == NO_KEY:
            return
        request_digest = request.environ.get(BATCH_CREATOR) or _digest(_key_in(request.headers))
        if not _is_one_of(request_digest, digests):
            raise Unauthorized(HOW_TO_SEND)
        g.api_key_digest = request_digest

    if keys:
        app.before_request(check_key)


def make_key_check(keys: tuple[str, ...], root_path: str = "") -> KeyCheck:
    """The check of `install`, for the server to make before it reads a body."""
    digests = _digests(keys)

    def check_key(method: str, path: str, headers: Headers) -> Unauthorized | None:
        if not keys or is_open(method, without_root_path(path, root_path)):
            return None
        is_known = _is_one_of(_digest(_key_in(headers)), digests)
        return None if is_known else Unauthorized(HOW_TO_SEND)

    return check_key


def _digests(keys: Sequence[str]) -> list[bytes]:
    """The digests of each key, and of the key behind TINKER_KEY_PREFIX."""
    return [_digest(f"{prefix}{key}".encode()) for key in keys for prefix in ("", TINKER_KEY_PREFIX)]


def _is_one_of(request_digest: bytes, digests: Sequence[bytes]) -> bool:
    """sum() compares with every key: the time does not show which one matched."""
    return bool(sum(hmac.compare_digest(request_digest, digest) for digest in digests))


def is_open(method: str, path: str) -> bool:
    """Whether a request needs no key and is served during shutdown: health, server info, pages, OPTIONS."""
    if method not in READ_METHODS:
        return method == "OPTIONS" or path == PING
    patterns = (STATUS_PATH, PAGE_PATH, SIGNED_PATH)
    return path in OPEN_PATHS or any(pattern.fullmatch(path) for pattern in patterns)


def _key_in(headers: Headers | WerkzeugHeaders) -> bytes:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        return _password(token)
    key = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
    return key.encode("latin1")  # WSGI decodes header bytes as latin1


def _password(credentials: str) -> bytes:
    """The password of basic authentication; empty if it is malformed. The user's name does not matter."""
    try:
        return base64.b64decode(credentials.strip(), validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        return b""


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
