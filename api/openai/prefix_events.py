"""The route that tells servers in front of this one which prompts its prefix cache has got from others.

Prompts are hashes of their blocks, see inference/prefix_blocks.py.
"""

from collections.abc import Sequence

from flask import Blueprint, Response, current_app, request
from flask.sansio.blueprints import BlueprintSetupState
from msgspec import Struct

from api.errors import json_response
from api.openai.protocol.errors import ErrorResponse
from api.openapi.operation import Operation, attach_operation
from inference.errors import BadRequest
from inference.prefix_log import PrefixLog

PREFIX_LOG = "prefix_log"  # key in app.extensions


class PrefixEvents(Struct):
    """The latest prompts. last: the number of the last one, for the next call's `after`."""

    last: int
    prompts: list[Sequence[int]]


PREFIX_EVENTS = Operation(
    "List the latest prompts of OpenAI's dialect as hashes, for a server in front",
    "Prompts are noted while somebody asks at least once a minute.",
    response=PrefixEvents,
    error=ErrorResponse,
    query={"after": "the number of the last prompt that is known; default 0"},
)


def install_prefix_events(blueprint: Blueprint, prefix: str) -> None:
    blueprint.record_once(make_log)
    view = attach_operation(prefix_events, PREFIX_EVENTS)
    blueprint.add_url_rule(f"{prefix}/prefix_events", "prefix_events", view)


def make_log(state: BlueprintSetupState) -> None:
    state.app.extensions[PREFIX_LOG] = PrefixLog()


def prefix_events() -> Response:
    text = request.args.get("after", "0")
    if not (text.isascii() and text.isdecimal()) or len(text) > 18:
        raise BadRequest("after", "must be the number of a prompt", text[:20])
    last, prompts = prefix_log().read(int(text))
    return json_response(200, PrefixEvents(last, prompts))


def prefix_log() -> PrefixLog:
    """The running app's log."""
    log: PrefixLog = current_app.extensions[PREFIX_LOG]
    return log
