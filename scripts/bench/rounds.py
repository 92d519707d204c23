"""Measures in rounds: in each round every engine computes every load, and the order of the engines rotates.

If the machine becomes slower, warmer or busier, it does so for all engines.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from statistics import median

from scripts.bench.engine_under_test import EngineFailed, EngineSpec, EngineUnderTest
from scripts.bench.load import Load, Request, warmup_requests
from scripts.bench.options import BenchOptions
from scripts.bench.workload import BenchWorkload, Results, Startup

SETTLE_S = 0.5  # between runs: threads of the previous engine may still spin
START = "start"
FIRST_LOAD = [Request(tuple(range(16, 24)), 1)]  # measures the time from the start to the first token


def measure(
    workload: BenchWorkload, options: BenchOptions, rounds: int, settle_s: float = SETTLE_S
) -> Results:
    """Raises EngineFailed if the first engine fails; other engines' failures are recorded in the results."""
    results = Results(workload, options)
    with ExitStack() as stack:
        group = EngineGroup(workload.make_specs(options), results, stack)
        for number in range(1, rounds + 1):
            if workload.restarts and number > 1:
                group.restart(rotate(list(results.descriptions), number))
            results.limits += [workload.measure_limit(options)] if workload.measure_limit else []
            for load, requests in workload.make_loads(options, number).items():
                for name in rotate(list(results.descriptions), number):
                    time.sleep(settle_s)
                    group.run(f"round {number}/{rounds}", load, requests, name)
    return results


class EngineGroup:
    """The running engines of a workload. An engine that fails is stopped, and restarted for the next load."""

    def __init__(self, specs: Sequence[EngineSpec], results: Results, stack: ExitStack) -> None:
        self._results, self._stack = results, stack
        self._specs = {spec.name: spec for spec in specs}
        self._engines: dict[str, EngineUnderTest] = {}
        for spec in specs:
            self._start(spec)

    def run(self, round_name: str, load: str, requests: Load, name: str) -> None:
        """Compute a load with an engine, unless the engine has failed at this load or at its start before."""
        if name not in self._engines and (load, name) not in self._results.failures:
            self._start(self._specs[name])
        if {(load, name), (START, name)} & self._results.failures.keys():
            return
        with self._recording_failure(load, name):
            run = self._engines[name].run(requests)
            self._results.runs.setdefault((load, name), []).append(run)
            rate = f"{self._results.rate(load)(run):.1f} tokens/s, {run.cpu_s:.1f} CPU s"
            self._log(f"{round_name}, {load}, {name}: {rate}")

    def restart(self, names: Sequence[str]) -> None:
        for name in names:
            if engine := self._engines.pop(name, None):
                engine.stop()
        for name in names:
            self._start(self._specs[name])

    def _start(self, spec: EngineSpec) -> None:
        results, name = self._results, spec.name
        self._log(f"starting {name}")
        with self._recording_failure(START, name):
            spec.prepare()
            start_s = time.perf_counter()
            self._engines[name] = engine = spec.start()
            self._stack.callback(engine.stop)
            first_run = engine.run(FIRST_LOAD)
            startup = Startup(time.perf_counter() - start_s, first_run.peak_mb)
            results.startups.setdefault(name, []).append(startup)
            results.descriptions[name] = engine.description
            engine.run(warmup_requests(results.workload.make_loads(results.options, 0)))

    @contextmanager
    def _recording_failure(self, load: str, name: str) -> Iterator[None]:
        """Record and stop an engine that fails in the block. The first engine's failure is raised."""
        try:
            yield
        except EngineFailed as error:
            if name == next(iter(self._specs)):
                raise
            self._results.failures[load, name] = str(error).strip().splitlines()[-1].strip()
            self._log(f"{load}, {name}: {error}")
            if engine := self._engines.pop(name, None):
                engine.stop()

    def _log(self, line: str) -> None:
        print(f"{self._results.workload.name}: {line}", file=sys.stderr, flush=True)


def rotate(names: list[str], number: int) -> list[str]:
    """The names, rotated to the left by `number`."""
    start = number % len(names)
    return names[start:] + names[:start]


def median_range(values: Sequence[float]) -> tuple[float, float, float]:
    """Median, lowest, highest."""
    return median(values), min(values), max(values)
