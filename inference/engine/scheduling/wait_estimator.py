"""Estimates when running answers end and waiting prompts start, to tell refused clients when to try again.

The estimate follows from each answer's progress: its remaining tokens and the time of the next steps, which
grows with the context. Knows lengths and times, and changes nothing. The engine's thread records; any thread
may ask.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterator
from collections.abc import Sequence as SequenceOf
from typing import Literal, NamedTuple

from inference.engine.scheduling.likely_steps import GroupEnds, LikelySteps, likely_steps
from inference.engine.scheduling.scheduled_step import ScheduledStep
from inference.engine.scheduling.scheduler import Scheduler
from inference.engine.scheduling.step_cost import StepCost
from inference.engine.sequence import Sequence
from inference.events import FinishReason

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
        running = tuple(self.scheduler.running)
        if not (running and self.step_s):
            return None
        steps = self._likely_steps(running)
        running_ends = sorted(steps.means())
        ends = GroupEnds([group_of(sequence) for sequence in running], steps.scenarios())
        self._add_waiting(ends, group_of, running_ends.copy())
        num_steps = ends.first_end()
        return None if num_steps is None else self._seconds(num_steps, running_ends[0])

    def _add_waiting(
        self, ends: GroupEnds, group_of: Callable[[Sequence], int | None], running_ends: list[float]
    ) -> None:
        """A group that runs in part ends with the last of its sequences that wait."""
        waiting = tuple(self.scheduler.waiting)
        for sequence, _, end in self._waiting_spans(waiting[:MAX_WAITING], running_ends):
            ends.delay(group_of(sequence), end)
        for sequence in waiting[MAX_WAITING:]:
            ends.delay(group_of(sequence), math.inf)  # others end earlier

    def _likely_steps(self, sequences: SequenceOf[Sequence]) -> LikelySteps:
        return likely_steps(sequences, tuple(self.lengths), self.scheduler.step_budget)

    def _waiting_spans(
        self, waiting: SequenceOf[Sequence], ends: list[float]
    ) -> Iterator[tuple[Sequence, float, float]]:
        """In how many steps each waiting sequence starts and ends.

        Each takes the place of the first of `ends`, a heap (a sorted list is one), which then has its end.
        """
        if not (waiting and ends):
            return
        for sequence, num_steps in zip(waiting, self._likely_steps(waiting).means(), strict=True):
            start = ends[0]
            end = start + num_steps
            yield sequence, start, end
            heapq.heapreplace(ends, end)

    def drained_s(self, excess: int) -> float | None:
        """Seconds until waiting sequences with `excess` prompt tokens together have started; None if unknown.

        While steps are full, prompts wait for the token budget. Else each waits for a running answer to end.
        """
        running = tuple(self.scheduler.running)
        if not (running and self.step_s):
            return None
        if self.is_full:
            return self.step_s * excess / self.scheduler.step_budget
        ends = sorted(self._likely_steps(running).means())
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
