"""A measured value, and the error of a wrong one. Imports no library: the supervisor starts at once."""

from typing import NamedTuple


class Figure(NamedTuple):
    """One measured value. `value` is a number if it has a unit that a target may refer to."""

    name: str
    value: float | str
    unit: str = ""
    remark: str = ""

    @property
    def text(self) -> str:
        """The value with four significant digits and its unit."""
        value = self.value if isinstance(self.value, str) else format_number(self.value)
        return f"{value} {self.unit}".strip()


def format_number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"


class WrongResult(Exception):
    """A section measured a wrong result: a failed test, or a prediction outside its tolerance."""
