"""Paths that two dialects share: the body selects the dialect of the response and of errors.

Knows the fields that distinguish the dialects' bodies, and nothing else about the dialects.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from flask import Blueprint, Response, request
from werkzeug.exceptions import HTTPException

from api import neodim, openai, tgi
from api.body import json_body
from api.errors import render_errors
from api.hooks import cors
from api.openapi.operation import Operation, attach_operation, operation_of
from api.response import View
from inference.errors import ServerError
from inference.models import Models
from settings.groups import ServerSettings


class Dialect(Protocol):
    def views(self, models: Models, settings: ServerSettings) -> dict[str, View]:
        """The dialect's view of each shared path, by path."""
        ...

    def error_before_start(self, error: ServerError) -> tuple[int, Any]: ...


class PathDispatch(NamedTuple):
    """The rule of one path: JSON objects that satisfy `is_other` go to `other`, other bodies to `default`."""

    default: Dialect
    other: Dialect
    is_other: Callable[[dict[str, Any]], bool]

    def dialect_for(self, value: Any) -> Dialect:
        return self.other if isinstance(value, dict) and self.is_other(value) else self.default


# Neodim requires both fields; TGI has neither.
NEODIM_FIELDS = {"generated_tokens_count", "max_total_tokens"}
DISPATCHES = {
    "/generate": PathDispatch(
        tgi, neodim, lambda body: bool(NEODIM_FIELDS & body.keys()) and "inputs" not in body
    ),
    "/tokenize": PathDispatch(openai, tgi, lambda body: "inputs" in body),
    "/invocations": PathDispatch(openai, tgi, lambda body: "inputs" in body),
}


def make_blueprint(models: Models, settings: ServerSettings) -> Blueprint:
    blueprint = Blueprint("shared", __name__)
    for path, dispatch in DISPATCHES.items():
        default_view = dispatch.default.views(models, settings)[path]
        other_view = dispatch.other.views(models, settings)[path]
        blueprint.add_url_rule(
            path, path, dispatch_view(dispatch, default_view, other_view), methods=["POST"]
        )
    if not settings.cors_origins:
        blueprint.before_request(_check_page)
        blueprint.after_request(_allow_neodims_pages)
    render_errors(blueprint, _error_before_start)
    return blueprint


def dispatch_view(dispatch: PathDispatch, default_view: View, other_view: View) -> View:
    """A view that calls `default_view` or `other_view`. Its Operation documents both."""

    def view() -> Response:
        return other_view() if dispatch.dialect_for(_read_body()) is dispatch.other else default_view()

    operations = [operation for each in (default_view, other_view) if (operation := operation_of(each))]
    return attach_operation(view, merge_operations(*operations)) if operations else view


def merge_operations(first: Operation, second: Operation | None = None) -> Operation:
    """One operation with the request, response and error types of both."""
    if second is None:
        return first
    return replace(
        first,
        summary=f"{first.summary}, or {second.summary[:1].lower()}{second.summary[1:]} (chosen by the body)",
        description="\n\n".join(filter(None, (first.description, second.description))),
        body=first.body | second.body,
        response=first.response | second.response,
        stream=tuple(dict.fromkeys(first.stream + second.stream)),
        error=first.error | second.error,
    )


def _check_page() -> None:
    """Refuse pages of other origins, unless their request has Neodim's form. A preflight has no body."""
    if request.method != "OPTIONS" and "Origin" in request.headers and _requested_dialect() is not neodim:
        cors.check_page()


def _allow_neodims_pages(response: Response) -> Response:
    """Let a page of any origin read an answer in Neodim's form, and no other. A preflight has no body."""
    if "Origin" in request.headers and (request.method == "OPTIONS" or _requested_dialect() is neodim):
        return neodim.allow_origin(response)
    return response


def _error_before_start(error: ServerError) -> tuple[int, Any]:
    return _requested_dialect().error_before_start(error)


def _requested_dialect() -> Dialect:
    return DISPATCHES[request.path.rstrip("/")].dialect_for(_read_body())


def _read_body() -> Any:
    """The parsed body; None if it is not JSON, so that the default dialect reports the error."""
    try:
        return json_body.read()
    except (ServerError, HTTPException):
        return None
