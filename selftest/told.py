"""Memory that was predicted and came, as people and programs read it."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from checks.columns import columns
from checks.every import table
from checks.finding import Finding, size
from selftest.ledger import ROW, TOKEN, Entry


def as_table(title: str, entries: Sequence[Entry]) -> str:
    """In columns that line up."""
    rows = [(title, "predicted", "actual", "")]
    rows += [(item.term, *told(item), apart(item)) for item in entries]
    return "\n".join(columns(rows, texts=1))


def as_json(title: str, entries: Sequence[Entry]) -> str:
    """On one line."""
    return json.dumps({"told": title, "terms": terms(entries)})


def terms(entries: Sequence[Entry]) -> dict[str, dict[str, int]]:
    return {item.term: {"predicted": item.predicted, "actual": item.actual} for item in entries}


def proof_as_json(findings: Sequence[Finding], entries: Sequence[Entry]) -> str:
    """What a selftest has found, and the memory in bytes."""
    told = {
        "ok": all(item.ok for item in findings),
        "findings": [asdict(item) for item in findings],
        "memory": terms(entries),
    }
    return json.dumps(told, indent=2)


def proof_as_table(findings: Sequence[Finding], entries: Sequence[Entry]) -> str:
    return table([*findings, *map(finding, entries)])


def finding(item: Entry) -> Finding:
    """As a line of a table of other findings."""
    predicted, actual = told(item)
    return Finding(item.term, f"{predicted} predicted", f"{actual} {apart(item)}".rstrip(), ok=True)


def told(item: Entry) -> tuple[str, str]:
    """To the byte where it is of one token, or one row."""
    predicted, actual = item.predicted, item.actual
    if item.term in (TOKEN, ROW):
        return f"{predicted} bytes", f"{actual} bytes"
    return size(predicted), size(actual)


def apart(item: Entry) -> str:
    """By how much the prediction was too high, or too low."""
    if item.predicted == item.actual:
        return "equal"
    return f"{(item.predicted - item.actual) / item.actual:+.1%}" if item.actual else ""
