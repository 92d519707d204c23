"""64 mixed requests beside transformers' continuous batching, in turns: a piece of scripts/bench.py."""

from collections.abc import Iterator

from scripts.bench import table
from scripts.bench.pieces.mixed import MIXED
from scripts.bench.rounds import measure, spread
from scripts.gpu.part import Asked, Line


def lines(asked: Asked) -> Iterator[Line]:
    results = measure(MIXED, asked.terms, asked.rounds)
    print("\n".join(table.lines(results)), flush=True)
    for (load, name), runs in results.runs.items():
        pace = results.pace(load)
        middle, low, high = spread([pace(run) for run in runs])
        yield f"{load}, {name}", f"{middle:.0f} tokens/s", f"{low:.0f} to {high:.0f}"
    for load in results.loads:
        middle, low, high = spread(results.ratios(load, "continuous", results.pace(load)))
        yield f"{load}, ratio", f"{middle:.2f} ×", f"{low:.2f} to {high:.2f}"
