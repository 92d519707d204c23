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
PREFACE = """\
# Every type that transformers registers

Made by `python scripts/prove.py --write`: a tiny random model of each type, loaded, fitted and served as
the server does, in float32; its greedy tokens beside those of transformers' own `generate`, each prompt
alone and in batches that prompts of other lengths join and leave. `error`: the largest difference of a
logit from the model's plain forward, in standard deviations of the logits. Where `generate` itself departs
from that forward, or fails, the forward is what is right, and the mark is `forward`."""
CELLS = ("type", "class", "seat", "error", "alone", "mixed", "why")
MARKS = {True: "exact", False: "no"}
DEPARTS = "forward"  # instead of exact: as the model's own forward, from which `generate` departs
SECTIONS = {False: "Causal", True: "Sequence to sequence"}
LONGEST = 200  # characters of a reason


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
    yield from PREFACE.splitlines()
    yield ""
    yield f"transformers {transformers.__version__}, torch {torch.__version__}"
    for encodes, title in SECTIONS.items():
        part = [row for row in rows if row.kind.encodes is encodes]
        yield from ("", f"## {title}: {counts(part)}", "", bars(CELLS), bars("---" for _ in CELLS))
        yield from map(printed, part)


def counts(rows: Iterable[Row]) -> str:
    rows = list(rows)
    exact, refused, wrong = (
        sum(getattr(row, name) for row in rows) for name in ("exact", "refused", "wrong")
    )
    departs = sum(row.exact and row.departs > 0 for row in rows)
    others = len(rows) - exact - refused - wrong
    return (
        f"{exact} of {len(rows)} exact ({departs} as their forward), {refused} refused, {others} not tried, "
        f"{wrong} wrong"
    )


def printed(row: Row) -> str:
    error = "" if row.error is None else f"{row.error:.0e}"
    it = line(row)
    return bars((it.type, it.architecture, it.seat, error, it.alone, it.mixed, it.why))


def bars(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def line(row: Row) -> Line:
    served = bool(row.seat) and not row.refused
    marks = MARKS | {True: DEPARTS} if row.departs else MARKS
    alone, mixed = (marks[mark] if served else "" for mark in (row.alone, row.mixed))
    why = row.why[:LONGEST].replace("|", "/")
    return Line(row.kind.type, row.kind.architecture, row.seat, alone, mixed, why)


def read(text: str) -> list[Line]:
    """The rows of a table, whatever stands around it."""
    found = []
    for row in text.splitlines():
        cells = [cell.strip() for cell in row.split("|")[1:-1]]
        if len(cells) == len(CELLS) and cells[0] not in (CELLS[0], "---"):
            found.append(Line(*cells[:3], *cells[4:]))
    return found
