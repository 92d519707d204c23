"""Will the model run here? A table of need, have and mend, before a byte of weights is fetched.

To add a check, write check(plan, machine) → Finding, or several, in a file of its own and name it in ALL.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict

from checks import access, architecture, disk, memory, quantise, shards, weights
from checks.finding import Finding, Refused
from checks.machine import Machine
from checks.plan import Plan

__all__ = ["ALL", "Finding", "Refused", "as_json", "run", "table"]

ALL = (
    access.check,
    architecture.check,
    shards.check,
    quantise.check,
    weights.check,
    disk.check,
    memory.check_ram,
    memory.check_gpus,
    memory.check_context,
)


def run(plan: Plan, machine: Machine) -> list[Finding]:
    """Every check's findings; those that do not apply say nothing."""
    return [finding for check in ALL for finding in several(check(plan, machine))]


def several(found: Finding | list[Finding] | None) -> list[Finding]:
    return found if isinstance(found, list) else [found] if found else []


def table(findings: Sequence[Finding]) -> str:
    """The findings in columns that line up, what to do about a bad one below it."""
    rows = [("check", "", "need", "have")]
    rows += [(item.name, "ok" if item.ok else "NO", item.need, item.have) for item in findings]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    mends = ["", *(f"{' ' * widths[0]}  mend: {item.mend}" if item.mend else "" for item in findings)]
    return "\n".join(line for pair in zip(lines, mends, strict=True) for line in pair if line)


def as_json(findings: Sequence[Finding], indent: int | None = 2) -> str:
    verdict = {"ok": all(item.ok for item in findings), "findings": [asdict(item) for item in findings]}
    return json.dumps(verdict, indent=indent)
