"""A route of Tinker's API, how it is added to a blueprint, and the service behind it."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from flask import Blueprint, Response, request

from api.body.json_body import read, to_struct
from api.errors import json_response
from api.hooks.tuning_access import require_service
from api.openapi.operation import Operation, attach_operation
from api.tinker.bodies import OrderedBody
from inference.errors import BadRequest
from tuning.runs.service import TrainingRuns
from tuning.runs.types import RejectedRequest, RunRequest

PREFIX = "/api/v1"
MAX_LIMIT, DEFAULT_LIMIT = 1000, 20  # objects of a page


class TinkerRoute(NamedTuple):
    """One route.

    path  below PREFIX
    view  takes the path's parameters and returns the JSON, or a whole response
    """

    method: str
    path: str
    view: Callable[..., Any]
    operation: Operation


def add_routes(blueprint: Blueprint, routes: Iterable[TinkerRoute]) -> None:
    for route in routes:
        view = attach_operation(partial(_respond, route.view), route.operation)
        blueprint.add_url_rule(
            PREFIX + route.path, f"{route.method} {route.path}", view, methods=[route.method]
        )


def _respond(view: Callable[..., Any], **parameters: str) -> Response:
    value = view(**parameters)
    return value if isinstance(value, Response) else json_response(200, value)


def require_runs() -> TrainingRuns:
    """Raises NotFound if the server has no tuning."""
    return require_service().runs


def submit(name: str, parse: Callable[[Any], RunRequest]) -> dict[str, Any]:
    """Submit what `parse` makes of the JSON body: a request that takes its place in the order of its run.

    Once run and place are known, a refusal is the result of the request's promise. A later request would
    wait for this place forever otherwise.
    """
    body = read()
    ids = to_struct(body, OrderedBody)
    return submit_at(name, ids.model_id, ids.seq_id, partial(parse, body))


def submit_at(name: str, run_id: str, seq_id: int, parse: Callable[[], RunRequest]) -> dict[str, Any]:
    """Submit the result of `parse`, or its refusal. Returns the reply, which names the promise."""
    run_request: RunRequest
    try:
        run_request = parse()
    except BadRequest as error:
        run_request = RejectedRequest(message=error.message)
    promise = require_runs().submit(run_id, seq_id, run_request)
    return {"type": name, "request_id": promise.request_id, "model_id": run_id}


class OffsetPage(NamedTuple):
    """The objects from `offset` on that a list shows."""

    offset: int
    limit: int

    def cursor(self, total_count: int) -> dict[str, int]:
        return {"offset": self.offset, "limit": self.limit, "total_count": total_count}

    @property
    def slice(self) -> slice:
        return slice(self.offset, self.offset + self.limit)


def requested_page() -> OffsetPage:
    """The page that the query names. Raises BadRequest."""
    return OffsetPage(
        _query_number("offset", 0, 0, 1 << 40), _query_number("limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
    )


def _query_number(name: str, default: int, lowest: int, highest: int) -> int:
    text = request.args.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 20 and lowest <= int(text) <= highest):
        raise BadRequest(name, f"must be {lowest} to {highest}", text)
    return int(text)
