"""Steps begun while the device computes the last one, beside steps that wait for it: one engine, in turns."""

from collections.abc import Iterator
from statistics import median

from scripts.bench.rounds import spread
from scripts.gpu.part import Asked, Line
from scripts.gpu.served import Served

ROWS = (1, 16, 64)
TIMED = 64
WAYS = {False: "one after the other", True: "begun early"}


def lines(asked: Asked) -> Iterator[Line]:
    served = Served(asked.terms)
    if not served.fitted.runner.paged:
        yield "steps begun early", "none", f"the seat is {served.fitted.seat}"
        return
    for rows in ROWS:
        took: dict[bool, list[float]] = {overlaps: [] for overlaps in WAYS}
        for _ in range(asked.rounds):
            for overlaps, times in took.items():
                times.append(decoded(served, rows, overlaps))
        for overlaps, way in WAYS.items():
            step = median(took[overlaps])
            yield f"step, {rows} rows, {way}", f"{step * 1e3:.3f} ms", f"{rows / step:.0f} tokens/s"
        ratios = [apart / early for apart, early in zip(*took.values(), strict=True)]
        middle, low, high = spread(ratios)
        yield f"{rows} rows, ratio", f"{middle:.2f} ×", f"{low:.2f} to {high:.2f}"


def decoded(served: Served, rows: int, overlaps: bool) -> float:
    """The seconds of a step of so many rows, the middle one of many."""
    served.overlap(overlaps)
    with served.decoding(rows, TIMED):
        return median(served.step() for _ in range(TIMED))
