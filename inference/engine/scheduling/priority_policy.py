"""Limits what less urgent sequences take beside others: their share of the rows and of the time.

The scheduler gets the policy with the first of them. In all else they come behind answers by their priority.
"""

import time
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as SequenceOf
from typing import NamedTuple

from inference.engine.sequence import BACKGROUND, GENERATING, POOLING, Sequence


class Share(NamedTuple):
    """What the sequences of one priority take.

    rows         of all rows, at most
    pause_ratio  while more urgent ones run, these sequences pause after each of their steps, for so many
                 times as long as it took
    """

    rows: float
    pause_ratio: float


# A request in the background takes a tenth of the time beside others, and all of it without them.
SHARES = {POOLING: Share(rows=0.5, pause_ratio=1.0), BACKGROUND: Share(rows=0.5, pause_ratio=9.0)}


class PriorityPolicy:
    """Selects the sequences that may compute and those that may be admitted."""

    def __init__(self, max_sequences: int) -> None:
        self._max_rows = {each: max(1, int(max_sequences * share.rows)) for each, share in SHARES.items()}
        self._resume_s = dict.fromkeys(SHARES, 0.0)
        self._paused = frozenset[int]()

    def record_step(self, sequences: Iterable[Sequence], end_s: float, duration_s: float) -> None:
        """Note a step of these sequences. end_s: its time.perf_counter()."""
        for priority in {sequence.priority for sequence in sequences} - {GENERATING}:
            self._resume_s[priority] = end_s + SHARES[priority].pause_ratio * duration_s

    def select_running(self, running: SequenceOf[Sequence]) -> SequenceOf[Sequence]:
        """The running sequences that may compute in this step. Call before `select_waiting`."""
        now, most_urgent = time.perf_counter(), min((each.priority for each in running), default=BACKGROUND)
        self._paused = frozenset(
            each for each, resume_s in self._resume_s.items() if each > most_urgent and now < resume_s
        )
        return [each for each in running if each.priority not in self._paused] if self._paused else running

    def select_waiting(
        self, waiting: SequenceOf[Sequence], running: SequenceOf[Sequence]
    ) -> Iterator[Sequence]:
        """The waiting sequences that may be admitted in this step: in order, those in the background last."""
        num_free = {
            priority: max_rows - sum(sequence.priority == priority for sequence in running)
            for priority, max_rows in self._max_rows.items()
            if priority not in self._paused
        }
        for is_background in (False, True):
            for sequence in waiting:
                priority = sequence.priority
                if (priority == BACKGROUND) != is_background:
                    continue
                if priority != GENERATING:
                    if num_free.get(priority, 0) <= 0:
                        continue
                    num_free[priority] -= 1
                yield sequence
