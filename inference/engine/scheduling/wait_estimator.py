"""Estimates when running answers end and waiting prompts start, to tell refused clients when to try again.

The estimate follows from each answer's progress: its remaining tokens and the time of the next steps, which
grows with the context. Knows lengths and times, and changes nothing. The engine's thread records; any thread
may ask.
"""

import heapq
import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from collections.abc import Sequence as SequenceOf
from itertools import cycle, islice, repeat
from typing import Literal, NamedTuple

from inference.engine.scheduling.scheduled_step import ScheduledStep
from inference.engine.scheduling.scheduler import Scheduler
from inference.engine.scheduling.step_cost import StepCost
from inference.engine.sequence import Sequence
from inference.types import FinishReason

MAX_WAITING = 128  # waiting sequences whose starts are estimated: the estimate is for refusals, and quick
MAX_ANSWERS = 32  # recent answers whose lengths are remembered
ESTIMATE_S = 0.05  # until the estimate is computed again: clients get whole seconds
FULL_SHARE = 0.9  # of the token budget, from which a step counts as full: prompts wait for the budget


Group = Literal["submission", "adapter"]
# The answers of one group free something together: a request's permit, or an adapter's place. None: no group.
GROUPS: dict[Group, Callable[[Sequence], int | None]] = {
    "submission": lambda sequence: sequence.submission,
    "adapter": lambda sequence: sequence.request.adapter_number or None,
}


class FirstEnd(NamedTuple):
    """Seconds from a step until a group's answers end. at: when the step ended."""

    at: float
    seconds: float | None


class WaitEstimator:
    """Estimates for the sequences of one scheduler.

    is_full  whether the last step computed as many tokens as a step may
    lengths  tokens of the last answers; infinite for an answer that ended because it reached its limit
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self._step_cost = StepCost()
        self._last_step_s = self._thread_s = 0.0
        self._is_idle = True
        self.is_full = False
        self.lengths: deque[float] = deque(maxlen=MAX_ANSWERS)
        self._first_ends: dict[Group, FirstEnd] = {}

    @property
    def step_s(self) -> float:
        """Seconds from one step to the next, as recently measured; 0 before the first."""
        return self._step_cost.step_s()

    def record_step(self, step: ScheduledStep, now: float, seconds: float, thread_s: float) -> None:
        """Count a step that ended at `now` and took `seconds`. The time before it counts too, unless idle.

        thread_s: CPU time that the engine's thread has used so far.
        """
        if not self._is_idle:
            seconds = now - self._last_step_s
        self._last_step_s, self._is_idle = now, False
        self._step_cost.record(step.num_tokens, step.num_context_tokens, seconds, thread_s - self._thread_s)
        self._thread_s = thread_s
        self.is_full = step.num_tokens >= FULL_SHARE * step.step_budget

    def record_idle(self) -> None:
        """No answer runs or waits: the time until the next step is no time of a step."""
        self._is_idle = True

    def record_answer(self, sequence: Sequence, finish_reason: FinishReason) -> None:
        if not sequence.pooling:
            self.lengths.append(math.inf if finish_reason == "length" else sequence.num_output_tokens)

    def first_end_s(self, group: Group = "submission") -> float | None:
        """Seconds until the running answers of one group have ended, expected; None without any.

        Computed at most once in ESTIMATE_S: many requests may be refused meanwhile.
        """
        last = self._first_ends.get(group)
        if last is None or last.seconds is None or self._last_step_s - last.at >= ESTIMATE_S:
            seconds = self._estimate_first_end_s(GROUPS[group])
            last = self._first_ends[group] = FirstEnd(self._last_step_s, seconds)
        return last.seconds

    def _estimate_first_end_s(self, group_of: Callable[[Sequence], int | None]) -> float | None:
        """The mean, over scenarios, of the earliest end of a group: that of its longest answer.

        In each scenario, every answer has one of its likely lengths.
        """
        num_scenarios, groups = 0, defaultdict[int | None, list[Iterator[float]]](list)
        running = tuple(self.scheduler.running)
        remaining = self._remaining_steps(running)
        for index, (sequence, steps) in enumerate(zip(running, remaining, strict=True)):
            num_scenarios = max(num_scenarios, len(steps))
            # Each answer begins with another of its lengths: scenario i is the i-th of all of them.
            shifted = islice(cycle(steps), index % len(steps), None)
            groups[group_of(sequence)].append(shifted)
        groups.pop(None, None)
        running_ends = ends_of(remaining)
        self._add_waiting(groups, group_of, running_ends.copy())
        if not (groups and self.step_s):
            return None
        ends = [zip_with(max, iterators) for iterators in groups.values()]
        num_steps = sum(islice(zip_with(min, ends), num_scenarios)) / num_scenarios
        return self._seconds(num_steps, running_ends[0])

    def _add_waiting(
        self,
        groups: dict[int | None, list[Iterator[float]]],
        group_of: Callable[[Sequence], int | None],
        running_ends: list[float],
    ) -> None:
        """A group that runs in part ends with the last of its sequences that wait."""
        waiting = tuple(self.scheduler.waiting)
        for sequence, _, end in self._waiting_spans(waiting[:MAX_WAITING], running_ends):
            if (group := group_of(sequence)) in groups:
                groups[group].append(repeat(end))
        for sequence in waiting[MAX_WAITING:]:
            groups.pop(group_of(sequence), None)  # others end earlier

    def _remaining_steps(self, running: SequenceOf[Sequence]) -> list[SequenceOf[float]]:
        lengths, token_budget = tuple(self.lengths), self.scheduler.step_budget
        return [remaining_steps(sequence, lengths, token_budget) for sequence in running]

    def _waiting_spans(
        self, waiting: SequenceOf[Sequence], ends: list[float]
    ) -> Iterator[tuple[Sequence, float, float]]:
        """In how many steps each waiting sequence starts and ends.

        Each takes the place of the first of `ends`, a heap, which then has its end.
        """
        lengths, token_budget = tuple(self.lengths), self.scheduler.step_budget
        for sequence in waiting if ends else ():
            start = ends[0]
            end = start + mean(remaining_steps(sequence, lengths, token_budget))
            yield sequence, start, end
            heapq.heapreplace(ends, end)

    def drained_s(self, excess: int) -> float | None:
        """Seconds until waiting sequences with `excess` prompt tokens together have started; None if unknown.

        While steps are full, prompts wait for the token budget. Else each waits for a running answer to end.
        """
        ends = ends_of(self._remaining_steps(tuple(self.scheduler.running)))
        if not (ends and self.step_s):
            return None
        if self.is_full:
            return self.step_s * excess / self.scheduler.step_budget
        first_end = ends[0]
        for sequence, start, _ in self._waiting_spans(tuple(self.scheduler.waiting), ends):
            excess -= sequence.num_prompt_tokens
            if excess <= 0:
                return self._seconds(start, first_end)
        return self._seconds(ends[0], first_end)

    def _seconds(self, num_steps: float, first_end: float) -> float:
        """Seconds of the next steps.

        The context grows until step `first_end`, in which an answer ends. From then on, others take the
        places of those that end.
        """
        if not num_steps:
            return 0.0
        running = tuple(self.scheduler.running)
        growing_steps = min(num_steps, first_end)
        mean_growth = growing_steps * (1 - growing_steps / (2 * num_steps))
        num_context_tokens = sum(len(sequence.token_ids) for sequence in running)
        return num_steps * self._step_cost.step_s(num_context_tokens + mean_growth * len(running))


def remaining_steps(sequence: Sequence, lengths: SequenceOf[float], token_budget: int) -> SequenceOf[float]:
    """The steps that the answer may still take: one number for each recent answer that was longer than it."""
    num_tokens, limit = sequence.num_output_tokens, sequence.max_len - sequence.num_prompt_tokens
    num_more = max(0, sequence.num_uncomputed_tokens - 1) / token_budget - num_tokens
    # No min(): a call for each length of each answer takes most of the time of an estimate.
    likely_lengths = [length if length < limit else limit for length in lengths if length > num_tokens]
    return [length + num_more for length in likely_lengths or [limit]]


def ends_of(remaining: SequenceOf[SequenceOf[float]]) -> list[float]:
    """In how many steps answers end, each of which may take one of its remaining numbers of steps: a heap."""
    ends = [mean(steps) for steps in remaining]
    heapq.heapify(ends)
    return ends


def zip_with(
    choose: Callable[[tuple[float, ...]], float], iterators: list[Iterator[float]]
) -> Iterator[float]:
    """What `choose` makes of the first values of all, the second values, and so on."""
    return map(choose, zip(*iterators, strict=True)) if len(iterators) > 1 else iterators[0]


def mean(values: SequenceOf[float]) -> float:
    return sum(values) / len(values)
