"""The route that tells servers in front of this one which prompts its prefix cache has got from others.

Prompts are hashes of their blocks, see inference/prefix_blocks.py. A client that knows a text can tell by
its hashes that it was sent, so each API key has a log of its own: servers in front of this one share a key.
"""

from collections.abc import Sequence

from flask import Blueprint, Response, current_app, request
from flask.sansio.blueprints import BlueprintSetupState
from msgspec import Struct

from api.errors import json_response
from api.openai.protocol.errors import ErrorResponse
from api.openapi.operation import Operation, attach_operation
from api.store.access import request_owner
from inference.errors import BadRequest
from inference.prefix_log import PrefixLog

PREFIX_LOGS = "prefix_logs"  # key in app.extensions: the log of each owner of an API key


class PrefixEvents(Struct):
    """The latest prompts. last: the number of the last one, for the next call's `after`."""

    last: int
    prompts: list[Sequence[int]]


PREFIX_EVENTS = Operation(
    "List the latest prompts of OpenAI's dialect as hashes, for a server in front",
    "Those that were sent with the same API key, while somebody asks for them at least once a minute.",
    response=PrefixEvents,
    error=ErrorResponse,
    query={"after": "the number of the last prompt that is known; default 0"},
)


def install_prefix_events(blueprint: Blueprint, prefix: str) -> None:
    blueprint.record_once(make_logs)
    view = attach_operation(prefix_events, PREFIX_EVENTS)
    blueprint.add_url_rule(f"{prefix}/prefix_events", "prefix_events", view)


def make_logs(state: BlueprintSetupState) -> None:
    state.app.extensions[PREFIX_LOGS] = {}


def prefix_events() -> Response:
    text = request.args.get("after", "0")
    if not (text.isascii() and text.isdecimal()) or len(text) > 18:
        raise BadRequest("after", "must be the number of a prompt", text[:20])
    last, prompts = prefix_log().read(int(text))
    return json_response(200, PrefixEvents(last, prompts))


def prefix_log() -> PrefixLog:
    """The log of the request's API key; of all requests if the server has no keys."""
    logs: dict[str, PrefixLog] = current_app.extensions[PREFIX_LOGS]
    return logs.setdefault(request_owner(), PrefixLog())
