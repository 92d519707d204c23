"""Times starts of an engine in processes of their own, from the process's start to the first token.

The second one finds all kernels in the caches. log.txt has the lines of both, with the time of each. Weights
are random, none is read from a disk.
"""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from scripts.bench.engine_under_test import SpawnedEngine
from scripts.bench.hearth import Hearth
from scripts.bench.options import BenchOptions
from scripts.bench.rounds import FIRST_LOAD
from scripts.gpu.figure import Figure
from scripts.gpu.log import write_log
from scripts.gpu.section import SectionRun

STARTS = ("first", "again")


def measure_section(run: SectionRun) -> Iterator[Figure]:
    run.engines.free()
    for name in run.choose(STARTS, STARTS[1:]):
        began = time.time()  # as the new process has it, too
        engine = SpawnedEngine(partial(open_engine, run.bench, run.options.output / "log.txt", began))
        try:
            engine.run(FIRST_LOAD)
            seconds = time.time() - began
        finally:
            engine.stop()
        yield Figure(f"{name}, until its first token", seconds, "s", engine.description)


def open_engine(options: BenchOptions, log: Path, began: float) -> Hearth:
    """In the new process, which was begun then: the engine, whose description has the times of its start."""
    imports_s = time.time() - began
    write_log(log)
    began_s = time.perf_counter()
    engine = Hearth(options)
    seconds = time.perf_counter() - began_s
    engine.description = f"imports {imports_s:.1f} s, weights and runner {seconds:.1f} s"
    return engine
