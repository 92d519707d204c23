"""Writes and parses the Markdown table of model types. Does not know how a row is computed."""

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import torch
import transformers

from scripts.markdown import markdown_header, markdown_row
from scripts.parity.compare import Row

TABLE_FILE = Path(__file__).parent / "table.md"
PREFACE = """\
# Every type that transformers registers

Made by `python -m scripts.parity --write`. A tiny random model of each type is loaded as the server loads it,
in float32. Its greedy tokens are compared with those of transformers' own `generate`: `alone`, with one
prompt at a time, and `mixed`, in batches that other sequences join and leave. `error`: the largest difference
of a logit from the model's plain forward, in standard deviations of the logits. If `generate` itself differs
from that forward, or fails, the expected tokens are those of the forward, and the mark is `forward`."""
COLUMNS = ("type", "class", "runner", "error", "alone", "mixed", "why")
MARKS = {True: "exact", False: "no"}
AS_FORWARD = "forward"  # instead of "exact": equal to the model's forward, from which `generate` differs
SECTIONS = {False: "Causal", True: "Sequence to sequence"}
MAX_REASON_LENGTH = 200  # characters


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of the table, without the error, which varies between machines."""

    type: str
    architecture: str
    runner: str
    alone: str
    mixed: str
    reason: str


def write(rows: Sequence[Row], path: Path) -> None:
    path.write_text("\n".join(format_table(rows)) + "\n")


def format_table(rows: Sequence[Row]) -> Iterator[str]:
    """The lines of the file."""
    yield from PREFACE.splitlines()
    yield ""
    yield f"transformers {transformers.__version__}, torch {torch.__version__}"
    for is_encoder_decoder, title in SECTIONS.items():
        section_rows = [row for row in rows if row.model_type.is_encoder_decoder is is_encoder_decoder]
        yield from ("", f"## {title}: {summarize(section_rows)}", "")
        yield from markdown_header(COLUMNS)
        yield from map(format_row, section_rows)


def summarize(rows: Sequence[Row]) -> str:
    num_exact = sum(row.is_exact for row in rows)
    num_refused = sum(row.is_refused for row in rows)
    num_wrong = sum(row.is_wrong for row in rows)
    num_as_forward = sum(row.is_exact and row.num_generate_mismatches > 0 for row in rows)
    num_untried = len(rows) - num_exact - num_refused - num_wrong
    return (
        f"{num_exact} of {len(rows)} exact ({num_as_forward} as their forward), {num_refused} refused, "
        f"{num_untried} not tried, {num_wrong} wrong"
    )


def format_row(row: Row) -> str:
    error = "" if row.error is None else f"{row.error:.0e}"
    type, architecture, runner, alone, mixed, reason = astuple(table_row(row))
    return markdown_row((type, architecture, runner, error, alone, mixed, reason))


def table_row(row: Row) -> TableRow:
    is_served = bool(row.runner) and not row.is_refused
    marks = MARKS | {True: AS_FORWARD} if row.num_generate_mismatches else MARKS
    alone, mixed = (marks[mark] if is_served else "" for mark in (row.is_exact_alone, row.is_exact_mixed))
    reason = row.reason[:MAX_REASON_LENGTH].replace("|", "/")
    return TableRow(row.model_type.type, row.model_type.architecture, row.runner, alone, mixed, reason)


def parse_table(text: str) -> list[TableRow]:
    """The rows of all tables in a text."""
    rows = []
    for line in text.splitlines():
        values = [value.strip() for value in line.split("|")[1:-1]]
        if len(values) == len(COLUMNS) and values[0] not in (COLUMNS[0], "---"):
            rows.append(TableRow(*values[:3], *values[4:]))
    return rows
