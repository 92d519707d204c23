"""The JSON of this dialect's errors."""

from typing import Literal

from msgspec import Struct

ErrorType = Literal["validation", "authentication", "not_found", "overloaded", "generation"]


class ErrorInfo(Struct):
    """`code` is the HTTP status, or OpenAI's context_length_exceeded."""

    message: str
    type: str
    param: str | None
    code: int | str


class ErrorResponse(Struct):
    """The body of an error: clients of OpenAI read `error`, clients of TGI `error_type`."""

    error: ErrorInfo
    error_type: ErrorType


class UnhealthyResponse(Struct):
    error: str
    error_type: str
