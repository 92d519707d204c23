"""The answers that run on other servers, and when they are expected to end, by the progress of each.

An answer's progress is counted in events, of which most servers send one for each token. Knows no servers.
"""

import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import mean

from inference.drain_rate import RecentDurations, StepTime, first_end_s, likely_rest
from inference.events import CallDelta, Embedded, Event, Finished, Token

MAX_ANSWERS = 32  # recent answers whose lengths are remembered
PROGRESS = Token, CallDelta, Embedded


class RunningAnswers:
    """Answers are counted on the event loop; any thread may ask.

    lengths       events of the last answers; infinite for an answer that ended because it reached its limit
    event_tokens  tokens in an event, as measured with the last answer
    durations     of whole answers; first_waits: until the first event of each
    last_step_s   seconds from one event to the next in the last answer; 0 before the first
    """

    def __init__(self) -> None:
        self._running: list[RunningAnswer] = []
        self.lengths: deque[float] = deque(maxlen=MAX_ANSWERS)
        self.event_tokens = 1.0
        self.durations, self.first_waits = RecentDurations(), RecentDurations()
        self.last_step_s = 0.0

    def __len__(self) -> int:
        return len(self._running)

    @contextmanager
    def count(self, max_tokens: int | None = None, num_choices: int = 1) -> Iterator["RunningAnswer"]:
        """An answer runs until the block ends. max_tokens: of each choice; None: unlimited"""
        running = RunningAnswer(self, math.inf if max_tokens is None else max_tokens, num_choices)
        self._running.append(running)
        try:
            yield running
        finally:
            self._running.remove(running)
            self.last_step_s = running.step_s or self.last_step_s
            self.durations.record(time.monotonic() - running.started_at)

    def first_end_s(self) -> float:
        """Seconds until the first of the answers ends."""
        now = time.monotonic()
        return first_end_s([running.likely_s(now) for running in tuple(self._running)])

    def last_end_s(self) -> float:
        """Seconds until all of the answers have ended."""
        now = time.monotonic()
        return max((mean(running.likely_s(now)) for running in tuple(self._running)), default=0.0)


class RunningAnswer:
    """One answer. limit: in tokens of each choice"""

    def __init__(self, all_running: RunningAnswers, limit: float, num_choices: int) -> None:
        self._all_running, self._limit, self._num_choices = all_running, limit, num_choices
        self.started_at = self._last_at = time.monotonic()
        self._step_time = StepTime()
        self._num_events = 0.0  # of each choice, so far

    @property
    def step_s(self) -> float:
        """Seconds from one event of a choice to the next."""
        return self._step_time.seconds

    def note(self, events: Sequence[Event]) -> None:
        """These events have arrived."""
        num_events = sum(isinstance(event, PROGRESS) for event in events) / self._num_choices
        if num_events:
            self._note_step(num_events, time.monotonic())
        for event in events:
            if isinstance(event, Finished) and not isinstance(event, Embedded):
                self._note_end(event)

    def _note_step(self, num_events: float, now: float) -> None:
        if self._num_events:
            self._step_time.record(num_events, now - self._last_at)
        else:
            self._all_running.first_waits.record(now - self.started_at)
        self._num_events += num_events
        self._last_at = now

    def _note_end(self, finished: Finished) -> None:
        if self._num_events and finished.num_tokens:
            self._all_running.event_tokens = finished.num_tokens / self._num_events
        has_reached_limit = finished.finish_reason == "length"
        self._all_running.lengths.append(math.inf if has_reached_limit else self._num_events)

    def likely_s(self, now: float) -> Sequence[float]:
        """The seconds that are left: one number for each recent answer that was longer."""
        step_s, elapsed_s = self.step_s or self._all_running.last_step_s, now - self.started_at
        if self._num_events and not step_s:  # as long again
            return [elapsed_s]
        if self._num_events:
            wait_s = -min(step_s, now - self._last_at)
        else:
            wait_s = mean(self._all_running.first_waits.likely_s(elapsed_s))
        return [max(0.0, wait_s + step_s * num_events) for num_events in self._likely_events()]

    def _likely_events(self) -> Sequence[float]:
        """The events that are left."""
        limit, lengths = self._limit / self._all_running.event_tokens, tuple(self._all_running.lengths)
        totals = [total for length in lengths or (limit,) if (total := min(length, limit)) < math.inf]
        return [
            min(rest, limit - self._num_events) for rest in likely_rest(totals or [0.0], self._num_events)
        ]
