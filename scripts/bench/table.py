"""Formats the results of a workload as text and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import product
from statistics import median
from typing import Any

from checks.columns import align_columns
from scripts.bench.load import Run
from scripts.bench.options import NONE
from scripts.bench.profile import MODEL
from scripts.bench.rounds import median_range
from scripts.bench.workload import Figure, Results

FIGURES: dict[str, Figure] = {
    "per CPU s": lambda run: run.tokens_per_cpu_second,
    "CPU µs": lambda run: 1e6 / run.tokens_per_cpu_second,  # per token
    "first ms": lambda run: run.first_token_ms(0.5),
    "first p99": lambda run: run.first_token_ms(0.99),
    "gap ms": lambda run: run.inter_token_ms(0.5),
    "gap p99": lambda run: run.inter_token_ms(0.99),
    "peak MB": lambda run: run.peak_mb,
}
RATE, RANGE = "tokens/s", ("lowest", "highest")


def format_results(results: Results) -> Iterator[str]:
    """The lines of the full report: what was measured, tables, failures, ratios, limits, profiles."""
    options, workload = results.options, results.workload
    rounds = len(next(iter(results.runs.values())))
    yield f"{workload.name}: {workload.description}"
    measured = f"{count_of(options.threads, 'thread')}, medians of {count_of(rounds, 'round')}"
    precision = options.dtype if options.quantize == NONE else options.quantize
    yield f"{options.model}, {precision}, {options.device}, {measured}"
    yield from (f"{name}: {description}" for name, description in results.descriptions.items())
    yield from format_table(load_rows(results))
    yield from format_table(startup_rows(results))
    yield from (f"{name}, {load}: {message}" for (load, name), message in results.failures.items())
    yield from format_ratios(results)
    yield from format_limits(results)
    yield from format_profile(results)


def count_of(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def load_rows(results: Results) -> list[list[str]]:
    """The header and a row for each load and engine."""
    rows = [["load", "", RATE, *RANGE, *FIGURES]]
    for load, name in product(results.loads, results.descriptions):
        runs = results.runs.get((load, name), ())
        rows.append([load, name, *(format_figures(runs, results.rate(load)) if runs else ["failed"])])
    return rows


def startup_rows(results: Results) -> list[list[str]]:
    """Each engine's time from the start of its process to its first token."""
    rows = [["start", "", "first token s", *RANGE, "peak MB"]]
    for name, startups in results.startups.items():
        seconds = median_range([startup.seconds for startup in startups])
        peak_mb = median(startup.peak_mb for startup in startups)
        rows.append(["start", name, *(f"{value:.1f}" for value in seconds), f"{peak_mb:.0f}"])
    return rows


def format_ratios(results: Results) -> Iterator[str]:
    """The first engine's tokens per second divided by each other engine's; on a CPU also per CPU second."""
    first, *others = results.descriptions
    for other in others if results.workload.restarts else ():
        pairs = zip(results.startups[first], results.startups.get(other, ()), strict=False)
        middle, low, high = median_range([theirs.seconds / ours.seconds for ours, theirs in pairs])
        yield f"start: {first} ÷ {other}: {middle:.2f} × as fast ({low:.2f} to {high:.2f})"
    for load, other in product(results.loads, others):
        if (load, other) not in results.runs:
            continue
        middle, low, high = median_range(results.ratios(load, other, results.rate(load)))
        line = f"{load}: {first} ÷ {other}: {middle:.2f} × tokens/s ({low:.2f} to {high:.2f})"
        if results.options.device == "cpu":
            middle, low, high = median_range(results.ratios(load, other, FIGURES["per CPU s"]))
            line += f", {middle:.2f} × per CPU second ({low:.2f} to {high:.2f})"
        yield line


def format_limits(results: Results) -> Iterator[str]:
    """For loads of one answer: the share of the rate that memory bandwidth allows."""
    if not results.limits:
        return
    limit, message = sorted(results.limits)[len(results.limits) // 2]
    yield f"limit of one answer: {limit:.1f} tokens/s, {message}"
    for (load, name), runs in results.runs.items():
        if all(len(run.token_times) == 1 < run.num_tokens for run in runs):
            rates = [results.rate(load)(run) for run in runs]
            shares = [100 * rate / limit for rate, (limit, _) in zip(rates, results.limits, strict=False)]
            middle, low, high = median_range(shares)
            yield f"{load}, {name}: {middle:.0f} % of the limit ({low:.0f} to {high:.0f})"


def format_figures(runs: Sequence[Run], rate: Figure) -> list[str]:
    """The cells below the header of `load_rows`; "-" for a value of 0, which means unknown."""
    values = [
        *median_range([rate(run) for run in runs]),
        *(median(map(each, runs)) for each in FIGURES.values()),
    ]
    return [f"{value:.1f}" if value else "-" for value in values]


def format_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table whose first two columns are text and whose other columns are numbers."""
    return align_columns(rows, num_text_columns=2)


def format_profile(results: Results) -> Iterator[str]:
    """The share of each section in the last round's time, for profiled engines."""
    for (load, name), runs in results.runs.items():
        if runs[-1].seconds_by_section:
            total = sum(runs[-1].seconds_by_section.values())
            sections = sorted(runs[-1].seconds_by_section.items(), key=lambda item: -item[1])
            shares = ", ".join(f"{section} {100 * seconds / total:.1f} %" for section, seconds in sections)
            outside = 100 * (1 - runs[-1].seconds_by_section.get(MODEL, 0.0) / total)
            yield f"{load}, {name}, {total:.2f} s, outside the model {outside:.1f} %: {shares}"


def as_json(results: Results) -> dict[str, Any]:
    return {
        "workload": results.workload.name,
        "options": asdict(results.options),
        "figures": [
            {"load": load, "engine": name, "description": results.descriptions[name]}
            | {RATE: [results.rate(load)(run) for run in runs]}
            | {column: [figure(run) for run in runs] for column, figure in FIGURES.items()}
            for (load, name), runs in results.runs.items()
        ],
        "startups": {
            name: [asdict(startup) for startup in startups] for name, startups in results.startups.items()
        },
        "failures": [[load, name, message] for (load, name), message in results.failures.items()],
        "limits": results.limits,
    }
