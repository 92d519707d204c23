"""Estimates when work ends that a process does again and again, such as the load of a model.

The CPU time that it has used says how far it is: the machine's speed changes, and phases of the work use more
or fewer cores. The last complete run is the example. Knows no processes.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

IDLE_WEIGHT = 0.05  # of a second without CPU time: while it waits for a disk, a run goes on, too
SMOOTHING_S = 0.3  # in which a run has hardly shown how slow it is


class WorkSample(NamedTuple):
    """The work that a run has done after `elapsed_s`, in seconds of CPU time."""

    work: float
    elapsed_s: float


class RepeatedWork:
    """What the last complete run shows of the next one. Any thread may ask.

    example  its samples; before it, those of a run that takes `first_cpu_s` on one core
    has_run  whether a run has been complete
    """

    def __init__(self, first_cpu_s: float) -> None:
        total = WorkSample((1 + IDLE_WEIGHT) * first_cpu_s, first_cpu_s)
        self.example: Sequence[WorkSample] = (WorkSample(0.0, 0.0), total)
        self.has_run = False

    @property
    def total_s(self) -> float:
        """Seconds that a run takes."""
        return self.example[-1].elapsed_s

    def elapsed_s_at(self, work: float) -> float:
        """When the example had done so much, which is less than all."""
        index = bisect_right(self.example, (work,))
        before, after = self.example[max(0, index - 1)], self.example[index]
        share = (work - before.work) / (after.work - before.work) if index else 0.0
        return before.elapsed_s + share * (after.elapsed_s - before.elapsed_s)


class WorkRun:
    """A run of repeated work. Times are those of time.monotonic()."""

    def __init__(self, repeated: RepeatedWork, started_at: float) -> None:
        self._repeated, self.started_at = repeated, started_at
        self._cpu_s = 0.0
        self._samples = [WorkSample(0.0, 0.0)]

    def note(self, now: float, cpu_s: float) -> None:
        """The run has used so much CPU time by now."""
        self._cpu_s, elapsed_s = max(cpu_s, self._cpu_s), now - self.started_at
        self._samples.append(WorkSample(self._cpu_s + IDLE_WEIGHT * elapsed_s, elapsed_s))

    def complete(self, now: float) -> None:
        """The run has ended well: it is the next one's example."""
        self.note(now, self._cpu_s)
        self._repeated.example, self._repeated.has_run = tuple(self._samples), True

    def remaining_s(self, now: float) -> float:
        """Seconds until it ends, expected. A run that exceeds its example does so by as much again."""
        since_start_s, (work, elapsed_s) = now - self.started_at, self._samples[-1]
        total = self._repeated.example[-1].work
        if work >= total:
            return elapsed_s * (1 - total / work)
        example_s = self._repeated.elapsed_s_at(work)
        slowness = (elapsed_s + SMOOTHING_S) / (example_s + SMOOTHING_S)
        return abs(slowness * (self._repeated.total_s - example_s) - (since_start_s - elapsed_s))
