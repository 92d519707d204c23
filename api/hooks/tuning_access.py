"""The tuning service of the running app."""

from flask import Flask, current_app

from inference.errors import NotFound
from tuning.service import TuningService

TUNING = "tuning"  # key in app.extensions: the TuningService, or None
NO_TUNING = "this server has no files and no tuning: TUNING_DIR is off, or could not be opened"


def install(app: Flask, service: TuningService | None) -> None:
    app.extensions[TUNING] = service


def current_service() -> TuningService | None:
    """The app's tuning service; None if the server has none."""
    service: TuningService | None = current_app.extensions[TUNING]
    return service


def require_service() -> TuningService:
    """Raises NotFound if the server has none."""
    service = current_service()
    if service is None:
        raise NotFound(NO_TUNING)
    return service
