"""vLLM's error format and messages, with TGI's `error_type` for TGI's clients, which call the same paths.

The error of a prompt that is too long has OpenAI's type and code.
Knows ServerError and the JSON of errors. requests/ decides which requests are invalid.
"""

from typing import Any, ClassVar

from api.errors import error_type
from api.openai.protocol.errors import ErrorInfo, ErrorResponse, ErrorType
from inference.errors import BadRequest, MaxTokensTooLarge, ServerError, TooLong
from inference.models import UnknownModel

TGI_TYPES: dict[int, ErrorType] = {
    401: "authentication",
    404: "not_found",
    429: "overloaded",
    503: "overloaded",
}

# OpenAI's type and code: agents shorten the conversation if they read them. The sentences are vLLM's, whose
# clients parse their numbers.
CONTEXT_TYPE, CONTEXT_CODE = "invalid_request_error", "context_length_exceeded"
CONTEXT_RULE = "has more"  # first words of TooLong.rule if the limit is the context, not max_input_tokens
TOO_LONG = (  # clients that shorten the conversation match its first words
    "This model's maximum context length is {0.limit} tokens. However, your request has {0.length} input "
    "{0.unit}. Please reduce the length of the input messages."
)
MAX_TOKENS_TOO_LARGE = (
    "'max_tokens' or 'max_completion_tokens' is too large: {0.requested_tokens}. "
    "This model's maximum context length is {0.limit} tokens and your request has {0.num_prompt_tokens} "
    "input tokens ({0.requested_tokens} > {0.limit} - {0.num_prompt_tokens})."
)


class InvalidParameter(BadRequest):
    """A value that breaks a rule. The message is complete; it is vLLM's if vLLM has one."""

    type: ClassVar[str] = "BadRequestError"

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__("", message)
        self.field = field


class InvalidBody(InvalidParameter):
    """A body with the wrong types, or with fields that exclude each other."""

    type: ClassVar[str] = "Bad Request"


def unsupported_api(api: str, reason: str = "") -> InvalidParameter:
    """vLLM's error for an API that the served model does not support, with the reason if there is one."""
    return InvalidParameter(f"The model does not support {api} API" + (f": {reason}" if reason else ""))


def error_before_start(error: ServerError) -> tuple[int, ErrorResponse]:
    """Status and body of an error before the first byte."""
    return error.status, envelope(error)


def error_in_stream(error: ServerError) -> list[Any]:
    """The values that end a stream after its first byte."""
    return [envelope(error)]


def envelope(error: ServerError) -> ErrorResponse:
    exceeds_context = isinstance(error, TooLong | MaxTokensTooLarge)
    own_type = CONTEXT_TYPE if exceeds_context else getattr(error, "type", None)
    info = ErrorInfo(
        message=_message(error),
        type=own_type or error_type(error.status),
        param=(error.field or None) if isinstance(error, BadRequest) else None,
        code=CONTEXT_CODE if exceeds_context else getattr(error, "code", error.status),
    )
    return ErrorResponse(
        info, TGI_TYPES.get(error.status, "validation" if error.status < 500 else "generation")
    )


def _message(error: ServerError) -> str:
    if error.status == 401:
        return f"Unauthorized: {error.message}"
    if isinstance(error, UnknownModel):
        return f"The model `{error.name}` does not exist."
    if isinstance(error, MaxTokensTooLarge):
        return MAX_TOKENS_TOO_LARGE.format(error)
    if isinstance(error, TooLong) and error.rule.startswith(CONTEXT_RULE):
        return TOO_LONG.format(error)
    return error.message
