"""What is required of a model's runner: its kind, its numerics and its size."""

from collections.abc import Container
from dataclasses import dataclass
from typing import NamedTuple

from inference.model.kv_cost import KVLimits, WindowGroup
from inference.model.paged.kv_pool import AUTO

RUNNERS = ("fused", "paged", "contiguous", "uncached")


@dataclass(frozen=True, slots=True)
class RunnerLimits:
    """How large a runner must be, and the memory that it may take.

    max_sequences           rows that run at once
    context                 tokens of a row
    kv_memory_bytes         most bytes of its KV memory
    max_batch_total_tokens  most tokens in it; None: as many as the bytes hold
    max_batch_tokens        tokens of the largest step, which a runner may prepare for; 0: unknown
    """

    max_sequences: int
    context: int
    kv_memory_bytes: int
    max_batch_total_tokens: int | None = None
    max_batch_tokens: int = 0

    def of_pages(self, page_size: int) -> KVLimits:
        return KVLimits(self.max_sequences, self.context, self.max_batch_tokens or self.context, page_size)


@dataclass(frozen=True, slots=True)
class RunnerRules:
    """Which runners may be selected.

    kinds          some of RUNNERS
    deterministic  only runners where the other rows of a batch change no bit of a row
    kv_dtype       of keys and values, one of KV_DTYPES
    timed          the fastest correct runner is selected; False: the first correct one
    """

    kinds: Container[str] = RUNNERS
    deterministic: bool = False
    kv_dtype: str = AUTO
    timed: bool = True


ANY_RUNNER = RunnerRules()


class RunnerSize(NamedTuple):
    """The size that a runner is built with.

    max_sequences  rows that run at once
    context        tokens of a row
    kv_capacity    tokens of its KV memory
    window_groups  of its pages; empty unless its KV cost has windows
    """

    max_sequences: int
    context: int
    kv_capacity: int
    window_groups: tuple[WindowGroup, ...] = ()


def kinds_of(runner: str) -> tuple[str, ...]:
    """The kinds that a value of RUNNER allows."""
    return RUNNERS if runner == AUTO else (runner,)
