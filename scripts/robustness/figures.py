"""The table that each measurement ends with: figure, value, target, verdict."""

from collections.abc import Sequence
from typing import NamedTuple


class JudgedFigure(NamedTuple):
    """A measured value and its target. is_met: None if the machine was too busy to tell."""

    name: str
    value: str
    target: str
    is_met: bool | None


VERDICTS = {True: "met", False: "MISSED", None: "machine too busy to tell"}


def print_table(title: str, figures: Sequence[JudgedFigure]) -> None:
    """Print the figures as a table of markdown."""
    print(f"\n{title}\n\n| figure | value | target | verdict |\n|---|---|---|---|")
    for figure in figures:
        print(f"| {figure.name} | {figure.value} | {figure.target} | {VERDICTS[figure.is_met]} |", flush=True)


def exit_code(figures: Sequence[JudgedFigure]) -> int:
    return int(any(figure.is_met is False for figure in figures))
