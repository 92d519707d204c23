"""A workload, which is a comparison of engines, and its results. Measures nothing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from scripts.bench.engine_under_test import EngineSpec
from scripts.bench.load import Load, Run
from scripts.bench.options import NONE, BenchOptions

Figure = Callable[[Run], float]


@dataclass(frozen=True, slots=True)
class BenchWorkload:
    """A comparison of engines.

    description    text for the report: what is compared, and what the figures mean
    model          the default model
    make_loads     (options, number of the round) -> the round's loads by name; the number is also their seed
    make_specs     the engines; the ratios in the report divide the first by each of the others
    rates          by load name, the rate to report; other loads: all tokens divided by all seconds
    measure_limit  the tokens per second that memory bandwidth allows for one sequence, and an explanation
    quantize       the quantizations to measure by default
    restarts       whether every round restarts the engines, so that their start-up times are compared, too
    """

    name: str
    description: str
    model: str
    make_loads: Callable[[BenchOptions, int], Mapping[str, Load]]
    make_specs: Callable[[BenchOptions], Sequence[EngineSpec]]
    rates: Mapping[str, Figure] = field(default_factory=dict)
    measure_limit: Callable[[BenchOptions], tuple[float, str]] | None = None
    quantize: Sequence[str] = (NONE,)
    restarts: bool = False


@dataclass(frozen=True, slots=True)
class Startup:
    """The start of an engine.

    seconds  from its start to its first token
    peak_mb  peak memory until then
    """

    seconds: float
    peak_mb: float


@dataclass(slots=True)
class Results:
    """The measurements of a workload.

    runs          by (load, engine): a Run for each round
    descriptions  by engine: how it computes; in the order of the specs
    startups      by engine: a Startup for each start
    failures      by (load or START, engine): the last line of the error. The load has no further runs.
    limits        for each round, the result of `measure_limit`
    """

    workload: BenchWorkload
    options: BenchOptions
    runs: dict[tuple[str, str], list[Run]] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)
    startups: dict[str, list[Startup]] = field(default_factory=dict)
    failures: dict[tuple[str, str], str] = field(default_factory=dict)
    limits: list[tuple[float, str]] = field(default_factory=list)

    @property
    def loads(self) -> list[str]:
        return list(dict.fromkeys(load for load, _ in self.runs))

    def rate(self, load: str) -> Figure:
        return self.workload.rates.get(load, total_rate)

    def ratios(self, load: str, other: str, figure: Figure) -> list[float]:
        """The first engine's figure divided by the other engine's, for each round that the other finished."""
        ours, theirs = self.runs[load, next(iter(self.descriptions))], self.runs.get((load, other), ())
        return [figure(our_run) / figure(their_run) for our_run, their_run in zip(ours, theirs, strict=False)]


def total_rate(run: Run) -> float:
    return run.tokens_per_second
