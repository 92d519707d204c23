"""The types that all sections of the GPU report share: options, figures and the error of a wrong result."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

from scripts.bench.options import BenchOptions
from scripts.gpu.engine import EnginePool

T = TypeVar("T")


class Figure(NamedTuple):
    """One measured value. `value` is a number if it has a unit that a target may refer to."""

    name: str
    value: float | str
    unit: str = ""
    remark: str = ""

    @property
    def text(self) -> str:
        """The value with four significant digits and its unit."""
        value = self.value if isinstance(self.value, str) else format_number(self.value)
        return f"{value} {self.unit}".strip()


def format_number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"


class WrongResult(Exception):
    """A section measured a wrong result: a failed test, or a prediction outside its tolerance."""


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
