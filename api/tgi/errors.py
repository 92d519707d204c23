"""Errors as TGI's clients read them: a sentence, and the `error_type` by which they raise the right class.

Knows ServerError and the shapes; which requests are wrong is found elsewhere.
"""

from typing import Any, ClassVar, NamedTuple

from flask import Response

from api.errors import reply
from api.stream import Incomplete
from inference.errors import BadRequest, Internal, NotImplementedHere, Overloaded, ServerError

UNAUTHORIZED = {
    "error": {"message": "Unauthorized", "type": "AuthenticationError", "param": None, "code": 401},
    "error_type": "authentication",
}
FIELDS = {"prompt": "inputs", "max_tokens": "max_new_tokens", "logprobs": "top_n_tokens", "n": "best_of"}


class Invalid(ServerError):
    """A value that breaks a rule, in TGI's words."""

    status: ClassVar[int] = 422

    def __init__(self, message: str) -> None:
        super().__init__(f"Input validation error: {message}")


class Misshapen(ServerError):
    """JSON, and not of the shape of this request."""

    status: ClassVar[int] = 422

    def __init__(self, error: BadRequest) -> None:
        super().__init__(f"Failed to deserialize the JSON body into the target type: {_quoted(error)}")


class Unreadable(ServerError):
    """Not JSON."""

    status: ClassVar[int] = 400

    def __init__(self, error: BadRequest) -> None:
        super().__init__(f"Failed to parse the request body as JSON: {error.message}")


class Kind(NamedTuple):
    """How errors of a class are told; `words` around the error's own."""

    error: type[ServerError]
    status: int
    type: str
    words: str = "{}"


# The first that fits. Others keep their status.
KINDS = (
    Kind(BadRequest, 422, "validation", "Input validation error: {}"),
    Kind(NotImplementedHere, 422, "validation", "Input validation error: {}"),
    Kind(Overloaded, 429, "overloaded", "Model is overloaded"),
    Kind(Incomplete, 500, "incomplete_generation", "Incomplete generation"),
    Kind(Internal, 424, "generation", "Request failed during generation: {}"),
)
TYPES = {404: "not_found", 405: "method_not_allowed", 503: "overloaded"}


def told(error: ServerError) -> Response:
    """The response that says what was wrong."""
    status, body = failed(error)
    return reply(status, body, error)


def failed(error: ServerError) -> tuple[int, dict[str, Any]]:
    """Status and body of an error before the first byte."""
    if error.status == 401:
        return 401, UNAUTHORIZED
    status, type, words = _kind(error)
    message = _quoted(error) if isinstance(error, BadRequest) else error.message
    return status, {"error": words.format(message), "error_type": type}


def broken(error: ServerError) -> list[Any]:
    """What ends a stream, or is all of it."""
    _, body = failed(error)
    if isinstance(error, Incomplete):
        return [{"error": "Incomplete generation stream", "error_type": "incomplete_generation_stream"}]
    return [body]


def _kind(error: ServerError) -> tuple[int, str, str]:
    for kind in KINDS:
        if isinstance(error, kind.error):
            return kind.status, kind.type, kind.words
    return error.status, TYPES.get(error.status, "validation" if error.status < 500 else "generation"), "{}"


def _quoted(error: BadRequest) -> str:
    """The message with the field as TGI calls and quotes it: `max_new_tokens` must be …"""
    if not error.field or error.field == "the body":
        return error.message
    return f"`{FIELDS.get(error.field, error.field)}`{error.message.removeprefix(error.field)}"
