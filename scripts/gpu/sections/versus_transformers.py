"""Compares our engine with transformers' continuous batching: the workload `mixed` of scripts/bench."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from scripts.bench.continuous import Continuous
from scripts.bench.engine_under_test import EngineSpec, SpawnedEngine
from scripts.bench.load import Load
from scripts.bench.options import BenchOptions
from scripts.bench.rounds import EngineGroup, median_range, rotate
from scripts.bench.workload import Results
from scripts.bench.workloads.mixed import MIXED
from scripts.gpu.figure import Figure
from scripts.gpu.section import SectionRun

OTHER = "continuous"
SAMPLE_REQUESTS, SAMPLE_BLOCKS = 4, 16  # blocks of 256 tokens


def measure_section(run: SectionRun) -> Iterator[Figure]:
    run.engines.free()
    sample = replace(MIXED, make_loads=make_small_loads, make_specs=make_small_specs)
    workload = run.choose(MIXED, sample)
    results = Results(workload, run.bench)
    with ExitStack() as stack:
        group = EngineGroup(workload.make_specs(run.bench), results, stack)
        for name, startups in results.startups.items():
            yield Figure(f"start, {name}", startups[-1].seconds, "s", "with imports, until its first token")
        for number in range(1, run.options.rounds + 1):
            yield from measure_round(group, results, number)
    for load in results.loads:
        ratios = results.ratios(load, OTHER, results.rate(load))
        if ratios:
            middle, low, high = median_range(ratios)
            yield Figure(f"{load}, ratio", middle, "×", f"{low:.2f} to {high:.2f}")


def make_small_loads(options: BenchOptions, round_number: int) -> dict[str, Load]:
    return {name: load[:SAMPLE_REQUESTS] for name, load in MIXED.make_loads(options, round_number).items()}


def make_small_specs(options: BenchOptions) -> list[EngineSpec]:
    small = EngineSpec(OTHER, partial(SpawnedEngine, partial(Continuous, options, SAMPLE_BLOCKS)))
    return [small if spec.name == OTHER else spec for spec in MIXED.make_specs(options)]


def measure_round(group: EngineGroup, results: Results, number: int) -> Iterator[Figure]:
    for load, requests in results.workload.make_loads(results.options, number).items():
        for name in rotate(list(results.descriptions), number):
            group.run(f"round {number}", load, requests, name)
            if runs := results.runs.get((load, name)):
                rate, description = results.rate(load)(runs[-1]), results.descriptions[name]
                yield Figure(f"{load}, {name}", rate, "tokens/s", f"round {number}, {description}")
    for (load, name), message in results.failures.items():
        yield Figure(f"{load}, {name}", "failed", remark=message)
