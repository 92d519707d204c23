"""Rounds: every contender computes every load, one after the other, in each round in another order.

So that a machine that grows slower, warmer or busier does so for all of them. Knows pieces and contenders;
not what they compute.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median

from scripts.bench.contender import Contender, Player
from scripts.bench.load import Load, Run, warming
from scripts.bench.terms import Terms

SETTLE_S = 0.5  # between runs: the threads of the one before still spin for a while


@dataclass(frozen=True, slots=True)
class Piece:
    """A comparison.

    about       a sentence on what is compared, with what must be known to judge the figures
    model       what it is measured with where nothing else is asked for
    loads       the loads of a round by name, from the terms and the round's number, which seeds them
    contenders  who; the first one's figures are divided by each other's
    """

    name: str
    about: str
    model: str
    loads: Callable[[Terms, int], Mapping[str, Load]]
    contenders: Callable[[Terms], Sequence[Contender]]


@dataclass(slots=True)
class Results:
    """runs[load, contender] has a Run for each round; about[contender] says how it computes."""

    piece: Piece
    terms: Terms
    runs: dict[tuple[str, str], list[Run]] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)

    @property
    def loads(self) -> list[str]:
        return list(dict.fromkeys(load for load, _ in self.runs))

    def ratios(self, load: str, other: str, figure: Callable[[Run], float]) -> list[float]:
        """How many times the other contender's figure the first one's was, round by round."""
        ours, theirs = self.runs[load, next(iter(self.about))], self.runs[load, other]
        return [figure(mine) / figure(its) for mine, its in zip(ours, theirs, strict=True)]


def measure(piece: Piece, terms: Terms, rounds: int, settle_s: float = SETTLE_S) -> Results:
    results = Results(piece, terms)
    with ExitStack() as stack:
        players: dict[str, Player] = {}
        for contender in piece.contenders(terms):
            tell(f"{piece.name}: starting {contender.name}")
            players[contender.name] = player = contender.start()
            stack.callback(player.stop)
            results.about[contender.name] = player.about
            player.run(warming(piece.loads(terms, 0)))
        for number in range(1, rounds + 1):
            for load, requests in piece.loads(terms, number).items():
                for name in turned(list(players), number):
                    time.sleep(settle_s)
                    run = players[name].run(requests)
                    results.runs.setdefault((load, name), []).append(run)
                    pace = f"{run.tokens_per_second:.1f} tokens/s, {run.cpu:.1f} CPU s"
                    tell(f"{piece.name}: round {number}/{rounds}, {load}, {name}: {pace}")
    return results


def turned(names: list[str], number: int) -> list[str]:
    """The names in another order each time."""
    start = number % len(names)
    return names[start:] + names[:start]


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Median, lowest, highest."""
    return median(values), min(values), max(values)


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
