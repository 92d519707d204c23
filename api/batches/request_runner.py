"""The interface between the queue of batches and what runs a request, and the answer to one."""

from collections.abc import Callable
from typing import NamedTuple, Protocol


class LineAnswer(NamedTuple):
    """The answer to one request. body: JSON; retry_after_s: of an answer that asks to try again."""

    status: int
    request_id: str
    body: bytes
    retry_after_s: float | None = None


OnAnswer = Callable[[LineAnswer], None]


class RequestRunner(Protocol):
    def start(self, body: bytes, endpoint: str, creator: bytes, on_answer: OnAnswer) -> Callable[[], object]:
        """Parse a request to the endpoint and begin its answer. Returns what cancels it, from any thread.

        creator    see BatchOrder
        on_answer  called once, at once or later on another thread; perhaps never after a cancellation
        """
        ...
