"""When a job saves its state and its checkpoints: at the end of each epoch, and often enough for a kill.

Knows how long saving takes; not what is saved.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from tuning.types import FinetuningType

INTERVAL_S = 60.0
# Training time between two saves, as a multiple of the time of one: whole models take 5 % of a job at most.
PAUSE_FACTORS: Mapping[FinetuningType, float] = {"lora": 0.0, "full": 20.0}


class SaveSchedule:
    def __init__(self, finetuning_type: FinetuningType, clock: Callable[[], float] = time.monotonic) -> None:
        self._pause_factor = PAUSE_FACTORS[finetuning_type]
        self._clock = clock
        self._saved_at = clock()
        self.save_s = 0.0  # of the last save

    def is_due(self, ends_epoch: bool) -> bool:
        shortest_s = self._pause_factor * self.save_s
        return self._clock() - self._saved_at >= max(shortest_s, 0.0 if ends_epoch else INTERVAL_S)

    @contextmanager
    def saving(self, is_state_saved: bool) -> Iterator[None]:
        """Measure the block if it saves a state."""
        began = self._clock()
        yield
        if is_state_saved:
            self._saved_at = self._clock()
            self.save_s = self._saved_at - began


def max_save_share(finetuning_type: FinetuningType) -> float:
    """The most of the training time that saving takes."""
    return 1 / (PAUSE_FACTORS[finetuning_type] or 1.0)
