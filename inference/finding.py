"""The result of a check: a row of the table printed at the start, and of the output of --check --json."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

MAX_NAMES_LISTED = 4
MAX_CELL_LENGTH = 300  # characters
# What clients are told in place of a finding that may name folders of this machine.
NOT_FETCHED = "it could not be fetched: the server's log says why"


@dataclass(frozen=True, slots=True)
class Finding:
    """`need` and `have` are texts for people. `fix` says how to repair a finding that is not ok."""

    name: str
    need: str
    have: str
    ok: bool
    fix: str = ""

    def to_json(self) -> dict[str, object]:
        """The fields. `fix` also appears under its former name, `mend`, in this release."""
        return asdict(self) | {"mend": self.fix}


class Refused(Exception):
    """The server refuses to start because of `finding`."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.fix or finding.have)
        self.finding = finding


def format_size(num_bytes: float) -> str:
    """The size in decimal units, such as 14.9 GB or 3.2 MB."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if num_bytes >= scale:
            return f"{num_bytes / scale:.1f} {unit}"
    return format_count(round(num_bytes), "byte")


def format_each(num_bytes: int, count: int) -> str:
    """What each of `count` needs or has, such as "2 x 1.2 GB"; of one: the size alone."""
    return format_size(num_bytes) if count == 1 else f"{count} x {format_size(num_bytes)}"


def format_count(count: int, noun: str) -> str:
    """Such as 1 GPU or 2 GPUs; the plural of `noun` ends in s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def printable(text: str) -> str:
    """The text with control characters replaced: untrusted text must not control the terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def table_cell(text: str) -> str:
    """The printable text, shortened to MAX_CELL_LENGTH: a long cell would widen the whole column."""
    return printable(text if len(text) <= MAX_CELL_LENGTH else f"{text[:MAX_CELL_LENGTH]}…")


def join_names(names: Sequence[str]) -> str:
    """The first MAX_NAMES_LISTED names, and how many more there are."""
    more = f" and {len(names) - MAX_NAMES_LISTED} more" if len(names) > MAX_NAMES_LISTED else ""
    return ", ".join(names[:MAX_NAMES_LISTED]) + more
