"""Formats the selftest and the memory report, as tables and as JSON."""

import json
from collections.abc import Sequence

from checks.columns import align_columns
from checks.report import format_table
from inference.finding import Finding, format_size
from selftest.memory_report import KV_PER_ROW, KV_PER_TOKEN, MemoryTerm


def format_memory_table(title: str, memory_terms: Sequence[MemoryTerm]) -> str:
    """A table with aligned columns."""
    rows = [(title, "predicted", "actual", "")]
    rows += [(item.name, *format_values(item), format_deviation(item)) for item in memory_terms]
    return "\n".join(align_columns(rows, num_text_columns=1))


def format_memory_json(title: str, memory_terms: Sequence[MemoryTerm]) -> str:
    """JSON on one line. The key `told` is the former name of `report`."""
    return json.dumps({"report": title, "told": title, "terms": terms_by_name(memory_terms)})


def terms_by_name(memory_terms: Sequence[MemoryTerm]) -> dict[str, dict[str, int]]:
    return {item.name: {"predicted": item.predicted, "actual": item.actual} for item in memory_terms}


def format_selftest_json(findings: Sequence[Finding], memory_terms: Sequence[MemoryTerm]) -> str:
    """JSON of the findings, and of the memory terms in bytes."""
    report = {
        "ok": all(item.ok for item in findings),
        "findings": [finding.to_json() for finding in findings],
        "memory": terms_by_name(memory_terms),
    }
    return json.dumps(report, indent=2)


def format_selftest_table(findings: Sequence[Finding], memory_terms: Sequence[MemoryTerm]) -> str:
    return format_table([*findings, *map(to_finding, memory_terms)])


def to_finding(item: MemoryTerm) -> Finding:
    """The term as a row of the table of findings."""
    predicted, actual = format_values(item)
    return Finding(
        item.name, f"{predicted} predicted", f"{actual} {format_deviation(item)}".rstrip(), ok=True
    )


def format_values(item: MemoryTerm) -> tuple[str, str]:
    """(predicted, actual): exact bytes for KV terms, rounded sizes for the others."""
    predicted, actual = item.predicted, item.actual
    if item.name in (KV_PER_TOKEN, KV_PER_ROW):
        return f"{predicted} bytes", f"{actual} bytes"
    return format_size(predicted), format_size(actual)


def format_deviation(item: MemoryTerm) -> str:
    """The error of the prediction, relative to the actual value; positive if too high."""
    if item.predicted == item.actual:
        return "equal"
    return f"{(item.predicted - item.actual) / item.actual:+.1%}" if item.actual else ""
