"""Compares sampling at temperature 1, with and without top_p, with greedy decoding: time of a step."""

from collections.abc import Iterator

from scripts.bench.load import Request
from scripts.gpu.figure import Figure
from scripts.gpu.section import SectionRun

ROWS = (64, 256)
STEPS = 48
SETTINGS = {
    "greedy": Request((), 1),
    "temperature 1": Request((), 1, temperature=1.0),
    "top_p 0.9": Request((), 1, temperature=1.0, top_p=0.9),
    "top_k 50": Request((), 1, temperature=1.0, top_k=50),
}


def measure_section(run: SectionRun) -> Iterator[Figure]:
    engine = run.engines.get()
    for rows in run.choose(ROWS, (2,)):
        greedy_s = 0.0
        for name, request in SETTINGS.items():
            step_s = engine.decode_step_s(rows, run.choose(STEPS, 4), request)
            greedy_s = greedy_s or step_s
            added = f"{(step_s - greedy_s) * 1e3:+.3f} ms to greedy"
            yield Figure(f"{rows} rows, {name}", step_s * 1e3, "ms a step", added)
