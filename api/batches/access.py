"""The batches of the running app."""

from flask import Flask, current_app

from api.batches.service import Batches
from inference.errors import NotFound

BATCHES = "batches"  # key in app.extensions: the Batches, or None
NO_BATCHES = "this server has no files and no batches: TUNING_DIR is off, or could not be opened"


def install(app: Flask, batches: Batches | None) -> None:
    app.extensions[BATCHES] = batches


def require_batches() -> Batches:
    """Raises NotFound if the server has none."""
    batches: Batches | None = current_app.extensions[BATCHES]
    if batches is None:
        raise NotFound(NO_BATCHES)
    return batches
