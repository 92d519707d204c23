"""Limits the embeddings beside answers: pooled sequences get half of the rows and of the time at most.

The scheduler gets the policy with the first of them. In all else they come behind answers by their priority.
"""

import time
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as SequenceOf

from inference.engine.sequence import Sequence


class PoolingPolicy:
    """Selects the sequences that may compute and those that may be admitted.

    While answers run, pooled sequences pause after each of their steps for as long as it took.
    """

    def __init__(self, max_sequences: int) -> None:
        self.max_pooled = max(1, max_sequences // 2)
        self._resume_s = 0.0
        self._is_paused = False

    def record_step(self, sequences: Iterable[Sequence], end_s: float, duration_s: float) -> None:
        """Note a step of these sequences. end_s: its time.perf_counter()."""
        if any(sequence.pooling for sequence in sequences):
            self._resume_s = end_s + duration_s

    def select_running(self, running: SequenceOf[Sequence]) -> SequenceOf[Sequence]:
        """The running sequences that may compute in this step. Call before `select_waiting`."""
        unpooled = [sequence for sequence in running if not sequence.pooling]
        self._is_paused = bool(unpooled) and time.perf_counter() < self._resume_s
        return unpooled if self._is_paused else running

    def select_waiting(self, waiting: Iterable[Sequence], running: Iterable[Sequence]) -> Iterator[Sequence]:
        """The waiting sequences, in order, that may be admitted in this step."""
        num_pooled = self.max_pooled if self._is_paused else sum(bool(each.pooling) for each in running)
        for sequence in waiting:
            if sequence.pooling and num_pooled >= self.max_pooled:
                continue
            num_pooled += bool(sequence.pooling)
            yield sequence
