"""Results as lines that people read, and as JSON.

Knows Results; measures nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import product
from statistics import median
from typing import Any

from scripts.bench.load import Run
from scripts.bench.rounds import Results, spread

Figure = Callable[[Run], float]
FIGURES: dict[str, Figure] = {
    "tokens/s": lambda run: run.tokens_per_second,
    "per CPU s": lambda run: run.tokens_per_cpu_second,
    "first ms": lambda run: run.first_ms,
    "gap ms": lambda run: run.gap_ms(0.5),
    "gap p99": lambda run: run.gap_ms(0.99),
    "peak MB": lambda run: run.peak_mb,
}
SPREAD = ("lowest", "highest")


def lines(results: Results) -> Iterator[str]:
    """The whole of it: what was measured, a table, the ratios, the profile."""
    terms, piece = results.terms, results.piece
    rounds = len(next(iter(results.runs.values())))
    yield f"{piece.name}: {piece.about}"
    taken = f"{counted(terms.threads, 'thread')}, medians of {counted(rounds, 'round')}"
    yield f"{terms.model}, {terms.dtype}, {terms.device}, {taken}"
    yield from (f"{name}: {about}" for name, about in results.about.items())
    yield from table(rows(results))
    yield from ratios(results)
    yield from parts(results)


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def rows(results: Results) -> list[list[str]]:
    """The header and a row for each load and contender."""
    found = [["load", "", *columns()]]
    for load in results.loads:
        found += [[load, name, *figures(results.runs[load, name])] for name in results.about]
    return found


def ratios(results: Results) -> Iterator[str]:
    """The first contender's tokens per second by each other's; on a CPU, by processor time as well."""
    first, *others = results.about
    for load, other in product(results.loads, others):
        middle, low, high = spread(results.ratios(load, other, FIGURES["tokens/s"]))
        told = f"{load}: {first} ÷ {other}: {middle:.2f} × tokens/s ({low:.2f} to {high:.2f})"
        if results.terms.device == "cpu":
            middle, low, high = spread(results.ratios(load, other, FIGURES["per CPU s"]))
            told += f", {middle:.2f} × per CPU second ({low:.2f} to {high:.2f})"
        yield told


def columns() -> list[str]:
    first, *others = FIGURES
    return [first, *SPREAD, *others]


def figures(runs: Sequence[Run]) -> list[str]:
    """In the order of `columns`; "-" for what is not known."""
    first, *others = FIGURES.values()
    values = [*spread([first(run) for run in runs]), *(median(map(figure, runs)) for figure in others)]
    return [f"{value:.1f}" if value else "-" for value in values]


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The rows with their columns in line: texts to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [f"{cell:<{width}}" for cell, width in zip(row[:2], widths[:2], strict=True)]
        cells += [f"{cell:>{width}}" for cell, width in zip(row[2:], widths[2:], strict=True)]
        yield "  ".join(cells).rstrip()


def parts(results: Results) -> Iterator[str]:
    """Where the time went, for contenders that were profiled."""
    for (load, name), runs in results.runs.items():
        if runs[-1].parts:
            whole = sum(runs[-1].parts.values())
            told = sorted(runs[-1].parts.items(), key=lambda part: -part[1])
            shares = ", ".join(f"{part} {100 * seconds / whole:.1f} %" for part, seconds in told)
            yield f"{load}, {name}, {whole:.2f} s: {shares}"


def as_json(results: Results) -> dict[str, Any]:
    return {
        "piece": results.piece.name,
        "terms": asdict(results.terms),
        "figures": [
            {"load": load, "contender": name, "about": results.about[name]}
            | {column: [figure(run) for run in runs] for column, figure in FIGURES.items()}
            for (load, name), runs in results.runs.items()
        ],
    }
