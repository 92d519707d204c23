"""What the process that runs the sections tells its supervisor."""

from collections.abc import Mapping
from typing import NamedTuple

from scripts.gpu.figure import Figure


class Began(NamedTuple):
    """A section begins. model: the shape that is measured."""

    section: str
    model: str


class Measured(NamedTuple):
    section: str
    figure: Figure


class SectionEnd(NamedTuple):
    section: str
    passed: bool


Message = str | Began | Measured | SectionEnd  # a string is a line of the report
Numbers = Mapping[tuple[str, str], float]  # as FigureReport.numbers
