"""Results as lines that people read, and as JSON.

Knows Results; measures nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import product
from statistics import median
from typing import Any

from checks.columns import columns
from scripts.bench.load import Run
from scripts.bench.piece import Figure, Results
from scripts.bench.profile import MODEL
from scripts.bench.rounds import spread
from scripts.bench.terms import NONE

FIGURES: dict[str, Figure] = {
    "per CPU s": lambda run: run.tokens_per_cpu_second,
    "first ms": lambda run: run.first_ms(0.5),
    "first p99": lambda run: run.first_ms(0.99),
    "gap ms": lambda run: run.gap_ms(0.5),
    "gap p99": lambda run: run.gap_ms(0.99),
    "peak MB": lambda run: run.peak_mb,
}
PACE, SPREAD = "tokens/s", ("lowest", "highest")


def lines(results: Results) -> Iterator[str]:
    """The whole of it: what was measured, a table, the ratios, the profile."""
    terms, piece = results.terms, results.piece
    rounds = len(next(iter(results.runs.values())))
    yield f"{piece.name}: {piece.about}"
    taken = f"{counted(terms.threads, 'thread')}, medians of {counted(rounds, 'round')}"
    form = terms.dtype if terms.quantise == NONE else terms.quantise
    yield f"{terms.model}, {form}, {terms.device}, {taken}"
    yield from (f"{name}: {about}" for name, about in results.about.items())
    yield from table(rows(results))
    yield from table(starts(results))
    yield from (f"{name}, {load}: {told}" for (load, name), told in results.lost.items())
    yield from ratios(results)
    yield from limits(results)
    yield from parts(results)


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def rows(results: Results) -> list[list[str]]:
    """The header and a row for each load and contender."""
    found = [["load", "", PACE, *SPREAD, *FIGURES]]
    for load, name in product(results.loads, results.about):
        runs = results.runs.get((load, name), ())
        found.append([load, name, *(figures(runs, results.pace(load)) if runs else ["failed"])])
    return found


def starts(results: Results) -> list[list[str]]:
    """From the start of each contender's process to the first token of its first answer."""
    found = [["start", "", "first token s", "peak MB"]]
    for name, began in results.began.items():
        found.append(["start", name, f"{began.seconds:.1f}", f"{began.peak_mb:.0f}"])
    return found


def ratios(results: Results) -> Iterator[str]:
    """The first contender's tokens per second by each other's; on a CPU, by processor time as well."""
    first, *others = results.about
    for load, other in product(results.loads, others):
        if (load, other) not in results.runs:
            continue
        middle, low, high = spread(results.ratios(load, other, results.pace(load)))
        told = f"{load}: {first} ÷ {other}: {middle:.2f} × tokens/s ({low:.2f} to {high:.2f})"
        if results.terms.device == "cpu":
            middle, low, high = spread(results.ratios(load, other, FIGURES["per CPU s"]))
            told += f", {middle:.2f} × per CPU second ({low:.2f} to {high:.2f})"
        yield told


def limits(results: Results) -> Iterator[str]:
    """How near to what the memory allows, for loads of one answer."""
    if not results.limits:
        return
    most, told = sorted(results.limits)[len(results.limits) // 2]
    yield f"limit of one answer: {most:.1f} tokens/s, {told}"
    for (load, name), runs in results.runs.items():
        if all(len(run.stamps) == 1 < run.tokens for run in runs):
            paces = [results.pace(load)(run) for run in runs]
            shares = [100 * pace / limit for pace, (limit, _) in zip(paces, results.limits, strict=False)]
            middle, low, high = spread(shares)
            yield f"{load}, {name}: {middle:.0f} % of the limit ({low:.0f} to {high:.0f})"


def figures(runs: Sequence[Run], pace: Figure) -> list[str]:
    """In the order of the header in `rows`; "-" for what is not known."""
    values = [*spread([pace(run) for run in runs]), *(median(map(each, runs)) for each in FIGURES.values())]
    return [f"{value:.1f}" if value else "-" for value in values]


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Two columns of texts, then figures."""
    return columns(rows, texts=2)


def parts(results: Results) -> Iterator[str]:
    """Where the time went, for contenders that were profiled."""
    for (load, name), runs in results.runs.items():
        if runs[-1].parts:
            whole = sum(runs[-1].parts.values())
            told = sorted(runs[-1].parts.items(), key=lambda part: -part[1])
            shares = ", ".join(f"{part} {100 * seconds / whole:.1f} %" for part, seconds in told)
            outside = 100 * (1 - runs[-1].parts.get(MODEL, 0.0) / whole)
            yield f"{load}, {name}, {whole:.2f} s, outside the model {outside:.1f} %: {shares}"


def as_json(results: Results) -> dict[str, Any]:
    return {
        "piece": results.piece.name,
        "terms": asdict(results.terms),
        "figures": [
            {"load": load, "contender": name, "about": results.about[name]}
            | {PACE: [results.pace(load)(run) for run in runs]}
            | {column: [figure(run) for run in runs] for column, figure in FIGURES.items()}
            for (load, name), runs in results.runs.items()
        ],
        "starts": {name: asdict(began) for name, began in results.began.items()},
        "failed": [[load, name, told] for (load, name), told in results.lost.items()],
        "limits": results.limits,
    }
