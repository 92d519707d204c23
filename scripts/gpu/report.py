"""Writes each figure the moment it is known, and the table of all figures with their targets."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from checks.columns import align_columns
from scripts.gpu.figure import Figure
from scripts.gpu.targets import NO_VERDICT, find_target, verdict

COLUMNS = ("section", "figure", "value", "target", "verdict", "remark")


class ReportRow(NamedTuple):
    section: str
    figure: str
    value: str
    target: str = NO_VERDICT
    verdict: str = NO_VERDICT
    remark: str = ""


class FigureReport:
    """Figures of one run. output: the folder of figures.txt and table.md. model: the shape, for its targets.

    numbers: the values of figures that are numbers, by section and name.
    """

    def __init__(self, output: Path, model: str = "") -> None:
        self.rows: list[ReportRow] = []
        self.numbers: dict[tuple[str, str], float] = {}
        self.model, self._table = model, output / "table.md"
        self._file = (output / "figures.txt").open("a")

    def add(self, section: str, figure: Figure) -> None:
        target = find_target(section, figure.name, self.model)
        row = ReportRow(
            section,
            figure.name,
            figure.text,
            target.text if target else NO_VERDICT,
            verdict(target, figure),
            figure.remark,
        )
        self.rows.append(row)
        if not isinstance(figure.value, str):
            self.numbers[section, figure.name] = figure.value
        goal = f"  [{row.target}: {row.verdict}]" if target else ""
        remark = f"  ({row.remark})" if row.remark else ""
        self.write(f"{section}  {row.figure}: {row.value}{goal}{remark}")

    def write(self, line: str) -> None:
        """Write a line to stdout and to figures.txt."""
        print(line, flush=True)
        self._file.write(line + "\n")
        self._file.flush()

    def write_table(self) -> None:
        """Write table.md, with all figures so far."""
        lines = [*map(markdown_row, (COLUMNS, ["---"] * len(COLUMNS), *self.rows))]
        self._table.write_text("\n".join(lines) + "\n")

    def table(self) -> Iterator[str]:
        """The lines of the table, without remarks."""
        return align_columns([COLUMNS[:-1], *(row[:-1] for row in self.rows)], num_text_columns=2)


def markdown_row(values: Sequence[str]) -> str:
    return "| " + " | ".join(value.replace("|", "\\|") for value in values) + " |"
