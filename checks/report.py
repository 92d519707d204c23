"""Prints what the checks found: findings, suggestions and files to fetch, as a table or as JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial

from checks.columns import align_columns
from checks.preflight import PreflightReport
from checks.suggestions import Configuration
from hub.repository import RepoFile
from inference.finding import Finding, printable, table_cell
from settings.schema import Settings

MAX_FILES_LISTED = 10  # of the files to fetch


def print_report(report: PreflightReport, *, as_json: bool) -> None:
    if as_json:
        speed = report.speed.to_json() if report.speed else None
        print(format_json(report.findings, report.suggestions, report.files_to_fetch, speed=speed))
        return
    print(format_table(report.findings, report.suggestions, report.files_to_fetch))
    if report.speed:
        print("", *report.speed.describe(), sep="\n")


def print_findings(
    findings: Sequence[Finding],
    settings: Settings,
    suggestions: Sequence[Configuration] = (),
    files: Sequence[RepoFile] = (),
) -> None:
    """Print the findings as a table or, with JSON_OUTPUT, as one line of JSON."""
    render = partial(format_json, indent=None) if settings.json_output else format_table
    print(render(findings, suggestions, files), flush=True)


def format_table(
    findings: Sequence[Finding], suggestions: Sequence[Configuration] = (), files: Sequence[RepoFile] = ()
) -> str:
    """The findings as aligned columns with their fixes, then the suggestions and the files to fetch."""
    rows = [("check", "", "need", "have")]
    rows += [
        (item.name, describe_status(item), table_cell(item.need), table_cell(item.have)) for item in findings
    ]
    indent = " " * max(len(name) for name, *_ in rows)
    fixes = ["", *(f"{indent}  fix: {printable(item.fix)}" if item.fix else "" for item in findings)]
    lines = [
        line
        for pair in zip(align_columns(rows, num_text_columns=4), fixes, strict=True)
        for line in pair
        if line
    ]
    return "\n".join([*lines, *format_suggestions(suggestions), *format_files_to_fetch(files)])


def describe_status(finding: Finding) -> str:
    """A finding that is ok and has a fix is a warning."""
    if not finding.ok:
        return "NO"
    return "warn" if finding.fix else "ok"


def format_suggestions(suggestions: Sequence[Configuration]) -> list[str]:
    if not suggestions:
        return []
    width = max(len(item.config_line) for item in suggestions)
    lines = (f"  {item.config_line:<{width}}  {item.need}, context {item.context}" for item in suggestions)
    return ["", "configurations that fit, the nearest first; paste one line into config.py:", *lines]


def format_files_to_fetch(files: Sequence[RepoFile]) -> list[str]:
    """The largest files, and the sum of the others in one line."""
    largest = sorted(files, key=lambda file: (-file.bytes_to_fetch, file.name))
    rows = [(f"  {table_cell(file.name)}", f"{file.bytes_to_fetch:,}") for file in largest[:MAX_FILES_LISTED]]
    if others := largest[MAX_FILES_LISTED:]:
        rows.append((f"  {len(others)} more", f"{sum(file.bytes_to_fetch for file in others):,}"))
    return ["", "files to fetch, in bytes:", *align_columns(rows, num_text_columns=1)] if rows else []


def format_json(
    findings: Sequence[Finding],
    suggestions: Sequence[Configuration] = (),
    files: Sequence[RepoFile] = (),
    indent: int | None = 2,
    speed: Mapping[str, object] | None = None,
) -> str:
    """The report as JSON; `files` are the files to fetch. speed: None: it was not estimated."""
    report = {
        "ok": all(item.ok for item in findings),
        "findings": [finding.to_json() for finding in findings],
        "fitting": [asdict(item) | {"line": item.config_line} for item in suggestions],
        "fetch": [{"file": file.name, "bytes": file.bytes_to_fetch} for file in files],
        **({} if speed is None else {"speed": speed}),
    }
    return json.dumps(report, indent=indent)
