"""vLLM's routes that put the model to sleep and wake it.

Entry point: make_blueprint. inference/local/sleep_mode.py does it. The responses are those of vLLM 0.32.
"""

from collections.abc import Collection
from typing import Literal, Protocol

from flask import Blueprint, Flask, Response, current_app, request
from msgspec import Struct

from api.errors import json_response, render_errors
from api.openai.errors import error_before_start
from api.openapi.operation import Operation, attach_operation
from inference.errors import BadRequest, NotFound
from inference.models import Models
from settings.groups import ServerSettings

SLEEP_MODE = "sleep_mode"  # key in app.extensions: what sleeps, or None
MAX_DIGITS = 9  # of a level in the query


class Sleeper(Protocol):
    """A model that can give its memory back. `sleep` and `wake_up` raise BadRequest."""

    @property
    def is_sleeping(self) -> bool: ...

    @property
    def deepest_level(self) -> int:
        """The level that releases the most memory."""
        ...

    @property
    def reclaimable_bytes(self) -> int:
        """What the deepest level releases."""
        ...

    def sleep(self, level: int, mode: str) -> None:
        """Refuse new requests, end the running ones, and release memory."""
        ...

    def wake_up(self, tags: Collection[str] = ...) -> bool:
        """Wake what the tags name, by default all; returns whether requests are taken again."""
        ...


class SleepResponse(Struct):
    level: int
    status: Literal["sleeping"] = "sleeping"


class WakeResponse(Struct):
    """The state after a request to wake.

    tags  those of the request; null: it has none
    """

    status: Literal["awake", "sleeping"]
    tags: list[str] | None


class SleepingResponse(Struct):
    is_sleeping: bool


SLEEP = Operation(
    "Release the model's memory, as vLLM does",
    "New requests get status 503 until the model is awake.",
    response=SleepResponse,
    query={
        "level": "1 (default): discard the KV cache; 2: weights that are mapped from WEIGHT_CACHE_DIR too",
        "mode": "of running requests: abort (default) ends them with an error, wait lets them end",
    },
)
WAKE_UP = Operation(
    "Wake the model",
    response=WakeResponse,
    query={"tags": "weights or kv_cache, to wake them one after the other; default: both"},
)
IS_SLEEPING = Operation("Show whether the model sleeps", response=SleepingResponse)


def make_blueprint(models: Models, settings: ServerSettings) -> Blueprint:
    blueprint = Blueprint("sleep_mode", __name__)
    for view, operation, method in (
        (sleep, SLEEP, "POST"),
        (wake_up, WAKE_UP, "POST"),
        (is_sleeping, IS_SLEEPING, "GET"),
    ):
        name = view.__name__
        blueprint.add_url_rule(f"/{name}", name, attach_operation(view, operation), methods=[method])
    render_errors(blueprint, error_before_start)
    return blueprint


def sleep() -> Response:
    text = request.args.get("level", "1")
    if not text.isdecimal() or len(text) > MAX_DIGITS:
        raise BadRequest("level", "must be an integer", text)
    sleeper().sleep(int(text), request.args.get("mode", "abort"))
    return json_response(200, SleepResponse(int(text)))


def wake_up() -> Response:
    tags = request.args.getlist("tags")
    is_awake = sleeper().wake_up(tags) if tags else sleeper().wake_up()
    return json_response(200, WakeResponse("awake" if is_awake else "sleeping", tags or None))


def is_sleeping() -> Response:
    return json_response(200, SleepingResponse(sleeper().is_sleeping))


def install(app: Flask, sleep_mode: Sleeper | None) -> None:
    app.extensions[SLEEP_MODE] = sleep_mode


def sleeper() -> Sleeper:
    """What sleeps in the running app. Raises NotFound if nothing can."""
    sleep_mode: Sleeper | None = current_app.extensions[SLEEP_MODE]
    if sleep_mode is None:
        where = "only a model that this server loads itself, on a CPU in one process, can sleep"
        raise NotFound(f"{where}; POST /models/unload unloads one on demand")
    return sleep_mode


def reclaimable_bytes() -> int:
    """Bytes that the model of the running app gives back asleep; 0: it cannot sleep."""
    sleep_mode: Sleeper | None = current_app.extensions[SLEEP_MODE]
    return sleep_mode.reclaimable_bytes if sleep_mode else 0


def sleep_reason() -> str:
    """Why the running app answers no requests; empty: its model is awake."""
    sleep_mode: Sleeper | None = current_app.extensions[SLEEP_MODE]
    return "the model sleeps" if sleep_mode and sleep_mode.is_sleeping else ""
