"""The store of the running app, and whose objects a request may see."""

import hashlib

from flask import Flask, current_app, g

from api.store.store import Store
from inference.errors import NotFound

STORE = "store"  # key in app.extensions: the Store, or None
NOTHING_STORED = "this server stores nothing: RESPONSES_STORE is off, or its file could not be opened"


def install(app: Flask, store: Store | None) -> None:
    app.extensions[STORE] = store


def current_store() -> Store | None:
    """The app's store; None if the server stores nothing."""
    store: Store | None = current_app.extensions[STORE]
    return store


def require_store() -> Store:
    """Raises NotFound if the server stores nothing."""
    store = current_store()
    if store is None:
        raise NotFound(NOTHING_STORED)
    return store


def request_owner() -> str:
    """The owner of what the request stores: a digest of its API key; empty if the server has no keys."""
    key_digest: bytes = g.get("api_key_digest", b"")
    return hashlib.sha256(b"owner of stored objects\n" + key_digest).hexdigest() if key_digest else ""
