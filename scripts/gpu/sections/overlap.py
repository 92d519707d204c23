"""Compares overlapped with sequential decoding steps, in alternating rounds."""

from collections.abc import Iterator
from statistics import median

from scripts.bench.rounds import median_range
from scripts.gpu.engine import SteppedEngine
from scripts.gpu.figure import Figure
from scripts.gpu.section import SectionRun

ROWS = (1, 16, 64, 256)
STEPS = 96
MODES = {True: "overlapped", False: "sequential"}


def measure_section(run: SectionRun) -> Iterator[Figure]:
    engine = run.engines.get()
    if not engine.runner.capabilities.paged:
        yield Figure("overlapped steps", "none", remark=f"the runner is {engine.selected.runner_kind}")
        return
    for rows in run.choose(ROWS, (1, 2)):
        times: dict[bool, list[float]] = {overlaps: [] for overlaps in MODES}
        for _ in range(run.options.rounds):
            for overlaps, seconds in times.items():
                seconds.append(measure_mode(engine, overlaps, rows, run.choose(STEPS, 4)))
        for overlaps, mode in MODES.items():
            step_s = median(times[overlaps])
            yield Figure(f"{rows} rows, {mode}", rows / step_s, "tokens/s", f"{step_s * 1e3:.3f} ms a step")
        ratios = [plain / overlapped for overlapped, plain in zip(*times.values(), strict=True)]
        middle, low, high = median_range(ratios)
        yield Figure(f"{rows} rows, ratio", middle, "×", f"{low:.2f} to {high:.2f}")


def measure_mode(engine: SteppedEngine, overlaps: bool, rows: int, steps: int) -> float:
    with engine.overlapping(overlaps):
        return engine.decode_step_s(rows, steps)
