"""The course of one answer, from its submission to its end: times and counts, whoever wants them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

WHOLE = frozenset({"stop", "length", "deadline"})  # reasons of answers that were told to their end


@dataclass(slots=True)
class Asked:
    """What the answers to one request share. `longest`: tokens of the longest; `left`: not over yet."""

    prompt_tokens: int
    max_tokens: int
    answers: int
    prepared_s: float
    submitted: float
    longest: int = 0
    left: int = 0

    def __post_init__(self) -> None:
        self.left = self.answers


class Listener(Protocol):
    """Who counts. What a span says of itself is up to date when it is handed over."""

    def started(self, span: "Span") -> None: ...

    def gained(self, span: "Span", seconds: float) -> None:
        """A token more, so long after the one before; the first, after the submission."""
        ...

    def finished(self, span: "Span", reason: str) -> None: ...


class Span:
    """How one answer goes on; whoever sees it tells. Used by one thread at a time.

    waited_s, cached  from submission to its first step, and prompt tokens that were not computed
    tokens            gained so far
    """

    def __init__(self, asked: Asked, listeners: Sequence[Listener], clock: Callable[[], float]) -> None:
        self.asked = asked
        self.waited_s = 0.0
        self.cached = 0
        self.tokens = 0
        self._listeners = listeners
        self._clock = clock
        self._first = self._last = asked.submitted
        self._end: float | None = None

    def started(self, waited_s: float, cached: int = 0) -> None:
        """It has had to wait so long for its turn."""
        self.waited_s, self.cached = waited_s, cached
        for listener in self._listeners:
            listener.started(self)

    def token(self) -> None:
        now = self._clock()
        seconds, self._last = now - self._last, now
        self._first = self._first if self.tokens else now
        self.tokens += 1
        for listener in self._listeners:
            listener.gained(self, seconds)

    def finished(self, reason: str) -> None:
        """It is over: "stop", "length", "deadline", "cancelled" or "error". Only the first time counts."""
        if self._end is not None:
            return
        self._end = self._clock()
        self.asked.left -= 1
        self.asked.longest = max(self.asked.longest, self.tokens)
        for listener in self._listeners:
            listener.finished(self, reason)

    @property
    def whole_s(self) -> float:
        """From submission to the end."""
        return (self._last if self._end is None else self._end) - self.asked.submitted

    @property
    def prefill_s(self) -> float:
        """From its first step to its first token."""
        return max(0.0, self._first - self.asked.submitted - self.waited_s)

    @property
    def decode_s(self) -> float:
        """From its first token to its last."""
        return self._last - self._first
