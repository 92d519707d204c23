"""The JSON of Llama Stack's errors, as a response and in a stream."""

from msgspec import Struct


class Violation(Struct):
    """An invalid field. `loc` is its path in the request: ["body", "messages", 0, "role"]."""

    loc: list[str | int]
    msg: str
    type: str


class Violations(Struct):
    errors: list[Violation]


class LlamaStackErrorInfo(Struct):
    """An error in Llama Stack's form.

    type, param and code are OpenAI's: its clients call this dialect's /v1/models/{name}.
    """

    detail: Violations | str
    message: str
    type: str
    param: str | None
    code: int


class LlamaStackErrorResponse(Struct):
    """The body of an error. Clients read `error` or `detail`, by protocol version."""

    error: LlamaStackErrorInfo
    detail: Violations | str


class StreamErrorInfo(Struct):
    message: str


class StreamError(Struct):
    """The last line of a stream that fails."""

    error: StreamErrorInfo
