"""Errors as vLLM words them, with what other clients of the same paths read beside: `error_type` is TGI's.

Knows ServerError and the shapes; which requests are wrong is found elsewhere.
"""

from http import HTTPStatus
from typing import Any, ClassVar

from flask import Response

from api.errors import reply
from inference.errors import BadRequest, NoRoom, NotFound, ServerError, TooLong

TYPES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    404: "NotFoundError",
    429: "RateLimitError",
    501: "NotImplementedError",
}
ERROR_TYPES = {401: "authentication", 404: "not_found", 429: "overloaded", 503: "overloaded"}

# What has been counted, by how the rule begins; characters of a text too long to be tokenised at all.
COUNTED = {"has more tokens": "tokens", "has more than": "characters"}
TOO_LONG = (  # clients look for its first words, to cut the conversation
    "This model's maximum context length is {0.limit} tokens. However, your request has {0.tokens} input "
    "{1}. Please reduce the length of the input messages."
)
NO_ROOM = (
    "'max_tokens' or 'max_completion_tokens' is too large: {0.asked}. This model's maximum context length is "
    "{0.limit} tokens and your request has {0.tokens} input tokens ({0.asked} > {0.limit} - {0.tokens})."
)


class Refused(BadRequest):
    """A value that breaks a rule, in a whole sentence: vLLM's where it has one."""

    type: ClassVar[str] = "BadRequestError"

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__("", message)
        self.field = field


class WrongBody(Refused):
    """A body that is not of its shape, or whose fields do not go together."""

    type: ClassVar[str] = "Bad Request"


class UnknownModel(NotFound):
    def __init__(self, name: str) -> None:
        super().__init__(f"The model `{name}` does not exist.")


def unsupported(api: str) -> Refused:
    """What vLLM says of a route that the model is not fit for."""
    return Refused(f"The model does not support {api} API")


def told(error: ServerError) -> Response:
    """The response that says what was wrong."""
    status, body = failed(error)
    return reply(status, body, error)


def failed(error: ServerError) -> tuple[int, dict[str, Any]]:
    """Status and body of an error before the first byte."""
    return error.status, envelope(error)


def broken(error: ServerError) -> list[Any]:
    """What ends a stream that has begun."""
    return [envelope(error)]


def envelope(error: ServerError) -> dict[str, Any]:
    said = {
        "message": _message(error),
        "type": getattr(error, "type", None) or TYPES.get(error.status) or HTTPStatus(error.status).phrase,
        "param": (error.field or None) if isinstance(error, BadRequest) else None,
        "code": error.status,
    }
    usual = "validation" if error.status < 500 else "generation"
    return {"error": said, "error_type": ERROR_TYPES.get(error.status, usual)}


def _message(error: ServerError) -> str:
    if error.status == 401:
        return "Unauthorized"
    if isinstance(error, NoRoom):
        return NO_ROOM.format(error)
    if isinstance(error, TooLong):
        for words, counted in COUNTED.items():
            if error.rule.startswith(words):
                return TOO_LONG.format(error, counted)
    return error.message
