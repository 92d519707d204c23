"""Compares overlapped with sequential decoding steps, in alternating rounds."""

from collections.abc import Iterator
from statistics import median

from scripts.bench.rounds import median_range
from scripts.gpu.engine import SteppedEngine
from scripts.gpu.section import ReportRow, SectionOptions

ROWS = (1, 16, 64)
NUM_TIMED_STEPS = 64
MODES = {False: "sequential", True: "overlapped"}


def measure_section(options: SectionOptions) -> Iterator[ReportRow]:
    engine = SteppedEngine(options.bench)
    if not engine.selected.runner.paged:
        yield "overlapped steps", "none", f"the runner is {engine.selected.runner_kind}"
        return
    for rows in ROWS:
        times_by_mode: dict[bool, list[float]] = {overlaps: [] for overlaps in MODES}
        for _ in range(options.rounds):
            for overlaps, times in times_by_mode.items():
                times.append(decode_step_s(engine, rows, overlaps))
        for overlaps, mode in MODES.items():
            step = median(times_by_mode[overlaps])
            yield f"step, {rows} rows, {mode}", f"{step * 1e3:.3f} ms", f"{rows / step:.0f} tokens/s"
        ratios = [
            sequential / overlapped for sequential, overlapped in zip(*times_by_mode.values(), strict=True)
        ]
        middle, low, high = median_range(ratios)
        yield f"{rows} rows, ratio", f"{middle:.2f} ×", f"{low:.2f} to {high:.2f}"


def decode_step_s(engine: SteppedEngine, rows: int, overlaps: bool) -> float:
    """Median seconds of a decoding step of `rows` rows."""
    engine.set_overlap(overlaps)
    with engine.decoding(rows, NUM_TIMED_STEPS):
        return median(engine.step() for _ in range(NUM_TIMED_STEPS))
