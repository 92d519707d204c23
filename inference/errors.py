"""The errors that users see: every layer raises these, and the dialects render them. Plain values only."""

import math
import re
from typing import Any, ClassVar, Literal

# The folders before a name in an absolute path; not a part of a URL or of owner/name.
PARENT_FOLDERS = re.compile(r"(?<![\w.:/~])(?:/[^\s/,;:]+)+/(?=[^\s/,;:])")


class ServerError(Exception):
    """An error for the user. `status` is the HTTP status, unless a dialect's contract sets another."""

    status: ClassVar[int] = 500

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BadRequest(ServerError):
    """A field breaks a rule: BadRequest("top_p", "must be in (0, 1]", 1.5)."""

    status = 400

    def __init__(self, field: str, rule: str, got: Any = ...) -> None:
        got_text = "" if got is ... else f", got {short(got)}"
        super().__init__(f"{field} {rule}{got_text}" if field else f"{rule}{got_text}")
        self.field = field
        self.rule = rule


class TooLong(BadRequest):
    """The prompt is longer than its limit of `limit` tokens.

    length  of the prompt, in units of `unit`: characters if the text was too long to be tokenized
    """

    def __init__(
        self,
        field: str,
        limit: int,
        length: int,
        rule: str = "",
        unit: Literal["tokens", "characters"] = "tokens",
    ) -> None:
        super().__init__(field, rule or f"has more tokens than the context of {limit} holds", length)
        self.limit = limit
        self.length = length
        self.unit = unit


class MaxTokensTooLarge(BadRequest):
    """The prompt leaves less of the context than the tokens requested for the answer."""

    def __init__(self, limit: int, num_prompt_tokens: int, requested_tokens: int) -> None:
        available = limit - num_prompt_tokens
        reason = f"the prompt has {num_prompt_tokens} tokens, the context holds {limit}"
        rule = f"must be at most {available}: {reason}"
        super().__init__("max_tokens", rule, requested_tokens)
        self.limit = limit
        self.num_prompt_tokens = num_prompt_tokens
        self.requested_tokens = requested_tokens


class Unauthorized(ServerError):
    status = 401


class NotFound(ServerError):
    status = 404


class TooLarge(ServerError):
    status = 413


class Overloaded(ServerError):
    """The queue is full. A client should retry after `retry_after` seconds, a whole number."""

    status = 429

    def __init__(self, retry_after: float) -> None:
        self.retry_after = math.ceil(retry_after)
        super().__init__(f"the server is busy: try again in {self.retry_after} s")


class NotImplementedHere(ServerError):
    status = 501


class Unavailable(ServerError):
    status = 503


class Internal(ServerError):
    status = 500


def short(value: Any, limit: int = 80) -> str:
    """`repr`, shortened: a message never carries a whole request body."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def error_line(error: Exception, limit: int = 200) -> str:
    """The message of a library's error, on one line."""
    return " ".join(str(error).split())[:limit]


def named_error(error: Exception, limit: int = 200) -> str:
    """The error's class and message: some messages say too little alone, such as 'model_type'."""
    return f"{type(error).__name__}: {error_line(error, limit)}"


def without_folders(text: str) -> str:
    """The text with the names alone of files and folders of this machine, for clients."""
    return PARENT_FOLDERS.sub("", text)
