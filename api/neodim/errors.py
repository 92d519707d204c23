"""Errors as Neodim's clients read them: {"error": "<the exception's name>: <message>"}.

Clients look whether there is an `error`; the statuses, all 500 in the original, say here what kind it is.
"""

from typing import ClassVar

from flask import Response

from api.errors import reply
from api.neodim.answers import Failure
from inference.errors import BadRequest, ServerError

REQUIRED = "is required"


class Unfit(BadRequest):
    """Well-formed, but it cannot be done: the original's RuntimeError."""

    status: ClassVar[int] = 422

    def __init__(self, message: str) -> None:
        super().__init__("", message)


def failed(error: ServerError) -> tuple[int, Failure]:
    """Status and body of an error before the first byte."""
    return error.status, Failure(said(error))


def broken(error: ServerError) -> list[Failure]:
    """What ends a stream that has begun."""
    return [Failure(said(error))]


def told(error: ServerError) -> Response:
    status, body = failed(error)
    return reply(status, body, error)


def said(error: ServerError) -> str:
    """The name is Python's where the original's was, else ours."""
    match error:
        case Unfit():
            return f"RuntimeError: {error.message}"
        case BadRequest() if error.rule == REQUIRED:
            return f"KeyError: {error.field!r}"
        case BadRequest():
            return f"ValueError: {error.message}"
        case _:
            return f"{type(error).__name__}: {error.message}"
