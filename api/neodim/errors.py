"""Neodim's error format: {"error": "<exception name>: <message>"}.

Clients only check for the field `error`. Neodim always answers 500; here each error has its own status.
"""

from typing import ClassVar

from api.neodim.protocol import NeodimErrorResponse
from inference.errors import BadRequest, ServerError

REQUIRED = "is required"


class ImpossibleRequest(BadRequest):
    """A well-formed request that cannot be served: a RuntimeError of the Neodim Server."""

    status: ClassVar[int] = 422

    def __init__(self, message: str) -> None:
        super().__init__("", message)


def error_before_start(error: ServerError) -> tuple[int, NeodimErrorResponse]:
    """Status and body of an error before the first byte."""
    return error.status, NeodimErrorResponse(error_text(error))


def error_in_stream(error: ServerError) -> list[NeodimErrorResponse]:
    """The last line of a stream that has begun."""
    return [NeodimErrorResponse(error_text(error))]


def error_text(error: ServerError) -> str:
    """The exception name is Neodim's where Neodim raises one, else the name of the error's class."""
    match error:
        case ImpossibleRequest():
            return f"RuntimeError: {error.message}"
        case BadRequest() if error.rule == REQUIRED:
            return f"KeyError: {error.field!r}"
        case BadRequest():
            return f"ValueError: {error.message}"
        case _:
            return f"{type(error).__name__}: {error.message}"
