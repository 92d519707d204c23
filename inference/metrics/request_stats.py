"""Times and counts of an answer from submission to end, and the listeners that turn them into metrics."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from inference.metrics.inter_token_times import InterTokenTimes

Buckets = tuple[float, ...]
CONTEXT_BUCKETS: Buckets = ()  # placeholder for buckets up to the context, which each metrics module makes

COMPLETE_REASONS = frozenset({"stop", "length", "deadline"})  # finish reasons of complete answers


@dataclass(slots=True)
class RequestInfo:
    """What the answers to one request have in common.

    prepared_s      seconds spent validating and tokenizing the request
    submitted_at    seconds on the clock of Metrics
    longest_output  tokens of the longest answer that has ended
    num_unfinished  answers that have not ended
    """

    prompt_tokens: int
    max_tokens: int
    num_answers: int
    prepared_s: float
    submitted_at: float
    longest_output: int = 0
    num_unfinished: int = 0

    def __post_init__(self) -> None:
        self.num_unfinished = self.num_answers


class AnswerListener(Protocol):
    """Turns the progress of answers into metrics. The AnswerStats are updated before each call."""

    def on_started(self, answer_stats: "AnswerStats") -> None: ...

    def on_first_token(self, seconds: float) -> None:
        """The first token was generated, `seconds` after the submission."""
        ...

    def on_finished(self, answer_stats: "AnswerStats", reason: str) -> None: ...


class AnswerStats:
    """The progress of one answer. Used by one thread at a time.

    queue_time_s       seconds from submission to the first step
    num_cached_tokens  prompt tokens from the prefix cache
    num_tokens         generated tokens so far
    """

    def __init__(
        self,
        request: RequestInfo,
        listeners: Sequence[AnswerListener],
        inter_token_times: InterTokenTimes,
        clock: Callable[[], float],
    ) -> None:
        self.request = request
        self.queue_time_s = 0.0
        self.num_cached_tokens = 0
        self.num_tokens = 0
        self._listeners = listeners
        self._inter_token_times = inter_token_times
        self._clock = clock
        self._first_token_at = self._last_token_at = request.submitted_at
        self._finished_at: float | None = None

    def record_start(self, queue_time_s: float, num_cached_tokens: int = 0) -> None:
        """Record that the first step began queue_time_s after the submission."""
        self.queue_time_s, self.num_cached_tokens = queue_time_s, num_cached_tokens
        for listener in self._listeners:
            listener.on_started(self)

    def record_token(self) -> None:
        now = self._clock()
        seconds, self._last_token_at = now - self._last_token_at, now
        self.num_tokens += 1
        if self.num_tokens > 1:
            self._inter_token_times.record(seconds)
            return
        self._first_token_at = now
        self._inter_token_times.record_first()
        for listener in self._listeners:
            listener.on_first_token(seconds)

    def record_finish(self, reason: str) -> None:
        """Record the end: "stop", "length", "deadline", "cancelled" or "error". Only the first counts."""
        if self._finished_at is not None:
            return
        self._finished_at = self._clock()
        self.request.num_unfinished -= 1
        self.request.longest_output = max(self.request.longest_output, self.num_tokens)
        for listener in self._listeners:
            listener.on_finished(self, reason)

    @property
    def total_s(self) -> float:
        """Seconds from submission to the end, or to the last token while the answer is unfinished."""
        return (
            self._last_token_at if self._finished_at is None else self._finished_at
        ) - self.request.submitted_at

    @property
    def prefill_s(self) -> float:
        """Seconds from the first step to the first token."""
        return max(0.0, self._first_token_at - self.request.submitted_at - self.queue_time_s)

    @property
    def decode_s(self) -> float:
        """Seconds from the first token to the last."""
        return self._last_token_at - self._first_token_at


class CounterSpec(NamedTuple):
    """A counter over answers; `read` returns what one answer adds."""

    name: str
    help: str
    read: Callable[[AnswerStats], int]


class HistogramSpec(NamedTuple):
    """A histogram over answers; `read` returns the value of one answer."""

    name: str
    help: str
    buckets: Buckets
    read: Callable[[AnswerStats], float]
