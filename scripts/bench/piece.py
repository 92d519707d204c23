"""A comparison, and what came of it.

Knows loads and contenders by name; measures nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from scripts.bench.contender import Contender
from scripts.bench.load import Load, Run
from scripts.bench.terms import NONE, Terms

Figure = Callable[[Run], float]


@dataclass(frozen=True, slots=True)
class Piece:
    """A comparison.

    about       a sentence on what is compared, with what must be known to judge the figures
    model       what it is measured with where nothing else is asked for
    loads       the loads of a round by name, from the terms and the round's number, which seeds them
    contenders  who; the first one's figures are divided by each other's
    paces       what a load is there to show, where that is not all its tokens by all its time; per second
    quantise    with which weights it is measured where nothing else is asked for
    limit       the tokens a second that this machine's memory allows one answer, and how it was found
    """

    name: str
    about: str
    model: str
    loads: Callable[[Terms, int], Mapping[str, Load]]
    contenders: Callable[[Terms], Sequence[Contender]]
    paces: Mapping[str, Figure] = field(default_factory=dict)
    limit: Callable[[Terms], tuple[float, str]] | None = None
    quantise: Sequence[str] = (NONE,)


@dataclass(frozen=True, slots=True)
class Began:
    """seconds: from the start of its process to its first token. peak_mb: memory held until then."""

    seconds: float
    peak_mb: float


@dataclass(slots=True)
class Results:
    """runs[load, contender] has a Run for each round; about[contender] says how it computes.

    began   how each contender started
    lost    what went wrong, where a contender failed at a load or at its start; it has no runs there
    limits  what the memory allowed, measured before each round
    """

    piece: Piece
    terms: Terms
    runs: dict[tuple[str, str], list[Run]] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)
    began: dict[str, Began] = field(default_factory=dict)
    lost: dict[tuple[str, str], str] = field(default_factory=dict)
    limits: list[tuple[float, str]] = field(default_factory=list)

    @property
    def loads(self) -> list[str]:
        return list(dict.fromkeys(load for load, _ in self.runs))

    def pace(self, load: str) -> Figure:
        return self.piece.paces.get(load, whole)

    def ratios(self, load: str, other: str, figure: Figure) -> list[float]:
        """How many times the other contender's figure the first one's was, in the rounds that it finished."""
        ours, theirs = self.runs[load, next(iter(self.about))], self.runs.get((load, other), ())
        return [figure(mine) / figure(its) for mine, its in zip(ours, theirs, strict=False)]


def whole(run: Run) -> float:
    return run.tokens_per_second
