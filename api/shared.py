"""Paths that two dialects have: which of them a body is for, and errors in that one's words.

Knows by which fields the dialects' bodies are told apart, nothing else of them.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from flask import Blueprint, Response, request
from werkzeug.exceptions import HTTPException

from api import body, neodim, openai, tgi
from api.errors import speak
from api.operation import Operation, described, of
from api.settings import AppSettings
from inference.backend import Backend
from inference.errors import ServerError

View = Callable[[], Response]


class Dialect(Protocol):
    def views(self, backend: Backend, settings: AppSettings) -> dict[str, View]:
        """What answers, by path."""
        ...

    def told(self, error: ServerError) -> Response: ...


class Choice(NamedTuple):
    """A body that `is_other` is for the dialect `other`, any other body for the `usual` one."""

    usual: Dialect
    other: Dialect
    is_other: Callable[[dict[str, Any]], bool]

    def of(self, value: Any) -> Dialect:
        return self.other if isinstance(value, dict) and self.is_other(value) else self.usual


NEODIMS = {"generated_tokens_count", "max_total_tokens"}  # which its bodies must have, and no other's has
CHOICES = {
    "/generate": Choice(tgi, neodim, lambda body: bool(NEODIMS & body.keys()) and "inputs" not in body),
    "/tokenize": Choice(openai, tgi, lambda body: "inputs" in body),
    "/invocations": Choice(openai, tgi, lambda body: "inputs" in body),
}


def routes(backend: Backend, settings: AppSettings) -> Blueprint:
    blueprint = Blueprint("shared", __name__)
    for path, choice in CHOICES.items():
        usual = choice.usual.views(backend, settings)[path]
        other = choice.other.views(backend, settings)[path]
        blueprint.add_url_rule(path, path, either(choice, usual, other), methods=["POST"])
    speak(blueprint, _told)
    return blueprint


def either(choice: Choice, usual: View, other: View) -> View:
    """The view of a path, with what the document tells of both."""

    def view() -> Response:
        return other() if choice.of(_body()) is choice.other else usual()

    operations = [operation for each in (usual, other) if (operation := of(each))]
    return described(view, both(*operations)) if operations else view


def both(first: Operation, second: Operation | None = None) -> Operation:
    """One operation that takes and gives what either of two does."""
    if second is None:
        return first
    return replace(
        first,
        summary=f"{first.summary}. Or, as the body says: {second.summary}",
        about="\n\n".join(filter(None, (first.about, second.about))),
        body=first.body | second.body,
        answer=first.answer | second.answer,
        stream=tuple(dict.fromkeys(first.stream + second.stream)),
        error=first.error | second.error,
    )


def _told(error: ServerError) -> Response:
    return CHOICES[request.path.rstrip("/")].of(_body()).told(error)


def _body() -> Any:
    """The body, or None where it cannot be read: the usual dialect says why."""
    try:
        return body.read()
    except (ServerError, HTTPException):
        return None
