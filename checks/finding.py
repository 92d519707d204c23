"""What a check finds: a line of the table that a start prints, and of the JSON of --check --json."""

from collections.abc import Sequence
from dataclasses import dataclass

SHOWN = 4  # of a list of names
LONGEST = 300  # letters of a cell of the table


@dataclass(frozen=True, slots=True)
class Finding:
    """need and have are for people; `mend` says what to do where it is not ok."""

    name: str
    need: str
    have: str
    ok: bool
    mend: str = ""


class Refused(Exception):
    """The start ends here, because of `finding`."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.mend or finding.have)
        self.finding = finding


def size(num_bytes: float) -> str:
    """14.9 GB, 3.2 MB: decimal units, as disks are sold."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if num_bytes >= scale:
            return f"{num_bytes / scale:.1f} {unit}"
    return f"{num_bytes:.0f} bytes"


def plain(text: str) -> str:
    """For a line on a terminal: what a stranger wrote may hold anything."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def cell(text: str) -> str:
    """For the table, whose columns are as wide as their widest cell."""
    return plain(text if len(text) <= LONGEST else f"{text[:LONGEST]}…")


def listed(names: Sequence[str]) -> str:
    """The first few, and how many more."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
