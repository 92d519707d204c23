"""Llama Stack's error format: clients read `detail`, `error.detail` or `error.message`, by protocol version.

The HTTP status is the error's own.
"""

import re
from typing import ClassVar

from api.body.large_json import WHOLE_BODY
from api.errors import error_type
from api.llama_stack.protocol.errors import (
    LlamaStackErrorInfo,
    LlamaStackErrorResponse,
    StreamError,
    StreamErrorInfo,
    Violation,
    Violations,
)
from inference.errors import BadRequest, ServerError
from inference.models import UnknownModel

REQUIRED = "is required"
PATH_STEP = re.compile(r"[^.\[\]]+")
INDEX = re.compile(r"[0-9]{1,9}")
SAMPLING_FIELDS = ("temperature", "top_p", "top_k", "max_tokens", "repetition_penalty", "stop", "seed")
FIELD_PATHS = {WHOLE_BODY: ""} | {name: f"sampling_params.{name}" for name in SAMPLING_FIELDS}


class InvalidModel(ServerError):
    """The requested model is not served. The status is 400, as in the reference server."""

    status: ClassVar[int] = 400

    def __init__(self, error: UnknownModel) -> None:
        super().__init__(f"Invalid value: Model '{error.name}' not found, this server has {error.served}")


def error_before_start(error: ServerError) -> tuple[int, LlamaStackErrorResponse]:
    """Status and body of an error before the first byte."""
    detail = Violations([_violation(error)]) if isinstance(error, BadRequest) else error.message
    param = error.field if isinstance(error, BadRequest) else None
    info = LlamaStackErrorInfo(detail, error.message, error_type(error.status), param, error.status)
    return error.status, LlamaStackErrorResponse(info, detail)


def error_in_stream(error: ServerError) -> list[StreamError]:
    """The last line of a stream that has begun."""
    return [StreamError(StreamErrorInfo(f"{error.status}: {error.message}"))]


def _violation(error: BadRequest) -> Violation:
    """The error, with the field messages[0].role as the path ["body", "messages", 0, "role"]."""
    steps = PATH_STEP.findall(FIELD_PATHS.get(error.field, error.field))
    loc: list[str | int] = ["body", *(int(step) if INDEX.fullmatch(step) else step for step in steps)]
    if error.rule.startswith(REQUIRED):
        return Violation(loc, "Field required", "missing")
    return Violation(loc, error.message, "value_error")
