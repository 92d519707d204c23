"""The errors of Tinker's API: {"detail": text}, with the statuses that its client takes to be final.

The client sends a request with status 408, 409, 429 or 5xx again, for up to five minutes.
"""

from typing import Any, ClassVar

from inference.errors import BadRequest, NotImplementedHere, ServerError

ACTIVE = "active"  # the queue's state: requests are being computed


class UnknownSample(ServerError):
    """No request for samples has this id, perhaps since a restart: the client sends it again."""

    status: ClassVar[int] = 410


class NotServed(BadRequest):
    """Something that this server does not have."""

    def __init__(self, name: str, fix: str) -> None:
        super().__init__(name, f"is not served here: {fix}")


class TryAgain(ServerError):
    """A promise is not resolved yet: the client asks again at once."""

    status: ClassVar[int] = 408

    def __init__(self, request_id: str) -> None:
        super().__init__("the result is not there yet")
        self.request_id = request_id


def error_before_start(error: ServerError) -> tuple[int, Any]:
    """Status and body of an error before the first byte."""
    if isinstance(error, TryAgain):
        return error.status, {
            "type": "try_again",
            "request_id": error.request_id,
            "queue_state": ACTIVE,
        }
    status = BadRequest.status if isinstance(error, NotImplementedHere) else error.status
    return status, {"detail": error.message}
