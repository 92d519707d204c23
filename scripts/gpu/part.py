"""What a part of the GPU's report is asked, and what it says."""

from dataclasses import dataclass

from scripts.bench.terms import Terms

Line = tuple[str, ...]  # what the figure is called, the figure, a word on it


class Wrong(Exception):
    """An answer is not what it must be."""


@dataclass(frozen=True, slots=True)
class Asked:
    """sample: of what can be left out, a little."""

    terms: Terms
    rounds: int
    sample: bool
