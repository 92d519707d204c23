"""TGI's error format: a sentence in `error`, and `error_type`, by which clients choose an exception class.

Knows ServerError and the JSON of errors. validation.py decides which requests are invalid.
"""

from typing import Any, ClassVar, NamedTuple

from api.body.large_json import WHOLE_BODY
from api.response import StreamEndedEarly
from inference.errors import BadRequest, Internal, NotImplementedHere, Overloaded, ServerError

FIELDS = {
    "prompt": "inputs",
    "input": "inputs",
    "max_tokens": "max_new_tokens",
    "logprobs": "top_n_tokens",
    "n": "best_of",
}


class InvalidInput(ServerError):
    """A value that breaks a rule, with TGI's message."""

    status: ClassVar[int] = 422

    def __init__(self, message: str) -> None:
        super().__init__(f"Input validation error: {message}")


class JsonDataError(ServerError):
    """The body is JSON, but a field is missing or has the wrong type."""

    status: ClassVar[int] = 422

    def __init__(self, error: BadRequest) -> None:
        super().__init__(f"Failed to deserialize the JSON body into the target type: {_quote_field(error)}")


class JsonSyntaxError(ServerError):
    """The body is not JSON."""

    status: ClassVar[int] = 400

    def __init__(self, error: BadRequest) -> None:
        super().__init__(f"Failed to parse the request body as JSON: {error.message}")


class ErrorKind(NamedTuple):
    """How errors of a class are rendered.

    type      the error_type
    template  format string for the error's message
    """

    error: type[ServerError]
    status: int
    type: str
    template: str = "{}"


# The first matching row applies. Other errors keep their own status.
ERROR_KINDS = (
    ErrorKind(BadRequest, 422, "validation", "Input validation error: {}"),
    ErrorKind(NotImplementedHere, 422, "validation", "Input validation error: {}"),
    ErrorKind(Overloaded, 429, "overloaded", "Model is overloaded"),
    ErrorKind(StreamEndedEarly, 500, "incomplete_generation", "Incomplete generation"),
    ErrorKind(Internal, 424, "generation", "Request failed during generation: {}"),
)
TYPES = {404: "not_found", 405: "method_not_allowed", 503: "overloaded"}


def error_before_start(error: ServerError) -> tuple[int, dict[str, Any]]:
    """Status and body of an error before the first byte."""
    if error.status == 401:
        return 401, _unauthorized(error.message)
    status, type, template = _kind(error)
    message = _quote_field(error) if isinstance(error, BadRequest) else error.message
    return status, {"error": template.format(message), "error_type": type}


def error_in_stream(error: ServerError) -> list[Any]:
    """The last event of a stream, possibly the only one."""
    _, body = error_before_start(error)
    if isinstance(error, StreamEndedEarly):
        return [{"error": "Incomplete generation stream", "error_type": "incomplete_generation_stream"}]
    return [body]


def _unauthorized(message: str) -> dict[str, Any]:
    """The body of a 401: TGI's is empty; the clients of OpenAI's routes read an object."""
    detail = {
        "message": f"Unauthorized: {message}",
        "type": "AuthenticationError",
        "param": None,
        "code": 401,
    }
    return {"error": detail, "error_type": "authentication"}


def _kind(error: ServerError) -> tuple[int, str, str]:
    for kind in ERROR_KINDS:
        if isinstance(error, kind.error):
            return kind.status, kind.type, kind.template
    return error.status, TYPES.get(error.status, "validation" if error.status < 500 else "generation"), "{}"


def _quote_field(error: BadRequest) -> str:
    """The message with TGI's name for the field, in backquotes: `max_new_tokens` must be …"""
    if error.field == WHOLE_BODY or not begins_with_field(error):
        return error.message
    return f"`{FIELDS.get(error.field, error.field)}`{error.message.removeprefix(error.field)}"


def begins_with_field(error: BadRequest) -> bool:
    """Whether the message begins with the name of the field. Some messages of vLLM do not."""
    return bool(error.field) and error.message.startswith(f"{error.field} ")
