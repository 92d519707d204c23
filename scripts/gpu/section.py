"""What a section of the GPU report gets: options, engines and its time."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from scripts.bench.options import BenchOptions
from scripts.gpu.engine import EnginePool
from scripts.gpu.figure import Figure

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SectionOptions:
    """How the sections measure.

    rounds     of comparisons
    sample     small counts, so that figures mean nothing
    output     a folder
    vllm_path  the folder that contains vLLM and what it imports; None: this Python has it, if any.
    """

    bench: BenchOptions
    rounds: int
    sample: bool
    output: Path
    vllm_path: Path | None = None

    def choose(self, full: T, small: T) -> T:
        return small if self.sample else full


@dataclass(frozen=True, slots=True)
class SectionRun:
    """What a section gets. engines: shared by all sections. deadline_s: time.monotonic() at its end.

    figures: the numbers measured so far in the run, by section and name.
    """

    options: SectionOptions
    engines: EnginePool
    deadline_s: float
    figures: Mapping[tuple[str, str], float] = field(default_factory=dict)

    @property
    def bench(self) -> BenchOptions:
        return self.options.bench

    @property
    def remaining_s(self) -> float:
        return max(0.0, self.deadline_s - time.monotonic())

    def choose(self, full: T, small: T) -> T:
        """`full`, or `small` in a sample."""
        return self.options.choose(full, small)


MeasureSection = Callable[[SectionRun], Iterator[Figure]]
