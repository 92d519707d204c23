"""Compares our engine with transformers' continuous batching: the workload `mixed` of scripts/bench."""

from collections.abc import Iterator

from scripts.bench import table
from scripts.bench.rounds import measure, median_range
from scripts.bench.workloads.mixed import MIXED
from scripts.gpu.section import ReportRow, SectionOptions


def measure_section(options: SectionOptions) -> Iterator[ReportRow]:
    results = measure(MIXED, options.bench, options.rounds)
    print("\n".join(table.format_results(results)), flush=True)
    for (load, name), runs in results.runs.items():
        rate = results.rate(load)
        middle, low, high = median_range([rate(run) for run in runs])
        yield f"{load}, {name}", f"{middle:.0f} tokens/s", f"{low:.0f} to {high:.0f}"
    for load in results.loads:
        middle, low, high = median_range(results.ratios(load, "continuous", results.rate(load)))
        yield f"{load}, ratio", f"{middle:.2f} ×", f"{low:.2f} to {high:.2f}"
