"""A route of the post-training and dataset APIs, and how it is added to a blueprint."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from flask import Blueprint, Response

from api.errors import json_response
from api.llama_stack.tuning_errors import invalid_values
from api.llama_stack.versions import ProtocolVersion
from api.openapi.operation import Operation, attach_operation


class TuningRoute(NamedTuple):
    """One route.

    path  below the version's prefix, with spaces between the words of a segment
    view  takes the path's parameters and returns the JSON
    """

    method: str
    path: str
    view: Callable[..., Any]
    operation: Operation


def add_routes(blueprint: Blueprint, version: ProtocolVersion, routes: Iterable[TuningRoute]) -> None:
    for route in routes:
        view = attach_operation(partial(_respond, route), route.operation)
        endpoint = f"{route.method} {route.path}"
        blueprint.add_url_rule(version.path(route.path), endpoint, view, methods=[route.method])


def _respond(route: TuningRoute, **parameters: str) -> Response:
    with invalid_values():
        return json_response(200, route.view(**parameters))
