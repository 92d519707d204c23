"""The table of what is proved: rows as Markdown, and the rows of a table that is kept.

Knows the file's form; not how a row comes to be.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers

from scripts.prove.proof import Row

KEPT = Path(__file__).parent / "table.md"
HEAD = "| type | class | seat | error | alone | mixed | why not |"
RULE = "|---|---|---|---|---|---|---|"
MARKS = {True: "exact", False: "no"}
SECTIONS = {False: "Causal", True: "Sequence to sequence"}
LONGEST = 200  # characters of a reason
EXACT_ERROR = 1e-4


@dataclass(frozen=True, slots=True)
class Line:
    """A row as the file has it; the error is left out: its last digits are the machine's."""

    type: str
    architecture: str
    seat: str
    alone: str
    mixed: str
    why: str


def write(rows: Sequence[Row], path: Path) -> None:
    path.write_text("\n".join(text(rows)) + "\n")


def text(rows: Sequence[Row]) -> Iterator[str]:
    """The whole file, line by line."""
    yield "# Every type that transformers registers"
    yield ""
    yield "Made by `python scripts/prove.py --write`: a tiny random model of each type, loaded, fitted and served"
    yield "as the server does, in float32; its greedy tokens beside those of transformers' own `generate`, each"
    yield "prompt alone and in batches that prompts of other lengths join and leave. `error`: the largest"
    yield "difference of a logit from the model's plain forward, in standard deviations of the logits."
    yield ""
    yield f"transformers {transformers.__version__}, torch {torch.__version__}"
    for encodes, title in SECTIONS.items():
        part = [row for row in rows if row.kind.encodes is encodes]
        yield from ("", f"## {title}: {counts(part)}", "", HEAD, RULE)
        yield from map(printed, part)


def counts(rows: Iterable[Row]) -> str:
    rows = list(rows)
    exact, wrong = sum(row.exact for row in rows), sum(row.wrong for row in rows)
    return f"{exact} of {len(rows)} exact, {len(rows) - exact - wrong} refused, {wrong} wrong"


def printed(row: Row) -> str:
    error = "" if row.error is None else f"{row.error:.0e}"
    it = line(row)
    cells = (it.type, it.architecture, it.seat, error, it.alone, it.mixed, it.why)
    return "| " + " | ".join(cells) + " |"


def line(row: Row) -> Line:
    served = bool(row.seat) and not row.refused
    alone, mixed = (MARKS[mark] if served else "" for mark in (row.alone, row.mixed))
    why = row.why[:LONGEST].replace("|", "/")
    return Line(row.kind.type, row.kind.architecture, row.seat, alone, mixed, why)


def kept(path: Path = KEPT) -> list[Line]:
    """The rows of a file."""
    found = []
    for text in path.read_text().splitlines():
        cells = [cell.strip() for cell in text.split("|")[1:-1]]
        if len(cells) == HEAD.count("|") - 1 and text not in (HEAD, RULE):
            found.append(Line(*cells[:3], *cells[4:]))
    return found
