"""Every check, in the order that people read them; what they found, as a table and as JSON.

To add a check, write check(plan, machine) → Finding, or several, in a file of its own and name it in ALL.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict

from checks import (
    access,
    architecture,
    code,
    device,
    disk,
    licence,
    memory,
    prequantised,
    quantise,
    seat,
    shards,
    template,
    weights,
)
from checks.columns import columns
from checks.finding import Finding, cell, plain
from checks.machine import Machine
from checks.nearest import Configuration, several
from checks.plan import Plan
from checks.source.file import File

SHOWN = 10  # files of those to fetch

ALL = (
    access.check,
    licence.check,
    architecture.check,
    code.check,
    template.check,
    shards.check,
    prequantised.check,
    quantise.check,
    seat.check,
    weights.check,
    disk.check,
    device.check,
    memory.check_ram,
    memory.check_gpus,
    memory.check_context,
)


def run(plan: Plan, machine: Machine) -> list[Finding]:
    """Every check's findings; those that do not apply say nothing."""
    return [finding for check in ALL for finding in several(check(plan, machine))]


def table(
    findings: Sequence[Finding], fitting: Sequence[Configuration] = (), files: Sequence[File] = ()
) -> str:
    """The findings in columns that line up, what to do about a bad one below it, what would fit, and the
    files that are to be fetched."""
    rows = [("check", "", "need", "have")]
    rows += [(item.name, "ok" if item.ok else "NO", cell(item.need), cell(item.have)) for item in findings]
    under = " " * max(len(name) for name, *_ in rows)
    mends = ["", *(f"{under}  mend: {plain(item.mend)}" if item.mend else "" for item in findings)]
    told = [line for pair in zip(columns(rows, texts=4), mends, strict=True) for line in pair if line]
    return "\n".join([*told, *listed(fitting), *to_fetch(files)])


def listed(fitting: Sequence[Configuration]) -> list[str]:
    if not fitting:
        return []
    width = max(len(item.line) for item in fitting)
    lines = (f"  {item.line:<{width}}  {item.need}, context {item.context}" for item in fitting)
    return ["", "configurations that fit, the nearest first, each a line to paste into config.py:", *lines]


def to_fetch(files: Sequence[File]) -> list[str]:
    """The largest first; of many the rest in one line."""
    largest = sorted(files, key=lambda file: (-file.left, file.name))
    rows = [(f"  {cell(file.name)}", f"{file.left:,}") for file in largest[:SHOWN]]
    if rest := largest[SHOWN:]:
        rows.append((f"  {len(rest)} more", f"{sum(file.left for file in rest):,}"))
    return ["", "to fetch, in bytes:", *columns(rows, texts=1)] if rows else []


def as_json(
    findings: Sequence[Finding],
    fitting: Sequence[Configuration] = (),
    files: Sequence[File] = (),
    indent: int | None = 2,
) -> str:
    """`files`: those that are to be fetched."""
    verdict = {
        "ok": all(item.ok for item in findings),
        "findings": [asdict(item) for item in findings],
        "fitting": [asdict(item) | {"line": item.line} for item in fitting],
        "fetch": [{"file": file.name, "bytes": file.left} for file in files],
    }
    return json.dumps(verdict, indent=indent)
