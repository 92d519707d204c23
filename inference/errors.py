"""What can go wrong, as a user is told: the words of every floor for it. Plain values only."""

from typing import Any, ClassVar


class ServerError(Exception):
    """Something a user is told. `status` is the HTTP status, unless a dialect's contract says otherwise."""

    status: ClassVar[int] = 500

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BadRequest(ServerError):
    """A field breaks a rule: BadRequest("top_p", "must be in (0, 1]", 1.5)."""

    status = 400

    def __init__(self, field: str, rule: str, got: Any = ...) -> None:
        given = "" if got is ... else f", got {short(got)}"
        super().__init__(f"{field} {rule}{given}" if field else f"{rule}{given}")
        self.field = field
        self.rule = rule


class TooLong(BadRequest):
    """The prompt, or the prompt with the answer asked for, exceeds the context."""

    def __init__(self, field: str, limit: int, got: int, rule: str = "") -> None:
        super().__init__(field, rule or f"has more tokens than the context of {limit} holds", got)
        self.limit = limit
        self.tokens = got


class NoRoom(BadRequest):
    """The prompt of `tokens` leaves less of the context than the `asked` tokens of the answer."""

    def __init__(self, limit: int, tokens: int, asked: int) -> None:
        rule = f"must be at most {limit - tokens}: the prompt has {tokens} tokens, the context holds {limit}"
        super().__init__("max_tokens", rule, asked)
        self.limit = limit
        self.tokens = tokens
        self.asked = asked


class Unauthorized(ServerError):
    status = 401


class NotFound(ServerError):
    status = 404


class TooLarge(ServerError):
    status = 413


class Overloaded(ServerError):
    """The queue is full; a client should try again after `retry_after` seconds."""

    status = 429

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"the server is busy: try again in {retry_after:.0f} s")
        self.retry_after = retry_after


class NotImplementedHere(ServerError):
    status = 501


class Unavailable(ServerError):
    status = 503


class Internal(ServerError):
    status = 500


def short(value: Any, limit: int = 80) -> str:
    """`repr`, cut so that a message never carries a whole body."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def said(error: Exception, limit: int = 200) -> str:
    """What an error that is none of ours says, in one line."""
    return " ".join(str(error).split())[:limit]


def named(error: Exception, limit: int = 200) -> str:
    """The same behind its name, where what it says alone is not enough: 'model_type'."""
    return f"{type(error).__name__}: {said(error, limit)}"
