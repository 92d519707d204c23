"""The types that all sections of the GPU report share: options, rows and the error of a wrong result."""

from dataclasses import dataclass

from scripts.bench.options import BenchOptions

ReportRow = tuple[str, ...]  # name, value, remark


class WrongResult(Exception):
    """A section measured a wrong result: a failed test, or a prediction outside its tolerance."""


@dataclass(frozen=True, slots=True)
class SectionOptions:
    """rounds: of comparisons. sample: run a small sample only."""

    bench: BenchOptions
    rounds: int
    sample: bool
