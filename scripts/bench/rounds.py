"""Rounds: every contender computes every load, one after the other, in each round in another order.

So that a machine that grows slower, warmer or busier does so for all of them. Knows pieces and contenders;
not what they compute.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from statistics import median

from scripts.bench.contender import Contender, Lost, Player
from scripts.bench.load import Load, Request, warming
from scripts.bench.piece import Began, Piece, Results
from scripts.bench.terms import Terms

SETTLE_S = 0.5  # between runs: the threads of the one before still spin for a while
START = "start"
FIRST = [Request(tuple(range(16, 24)), 1)]  # what is asked first, for the time from a start to an answer


def measure(piece: Piece, terms: Terms, rounds: int, settle_s: float = SETTLE_S) -> Results:
    """Raises Lost where the first contender fails; what others fail at is among the results."""
    results = Results(piece, terms)
    with ExitStack() as stack:
        field = Field(piece.contenders(terms), results, stack)
        for number in range(1, rounds + 1):
            results.limits += [piece.limit(terms)] if piece.limit else []
            for load, requests in piece.loads(terms, number).items():
                for name in turned(list(results.about), number):
                    time.sleep(settle_s)
                    field.run(f"round {number}/{rounds}", load, requests, name)
    return results


class Field:
    """The contenders that take part. One that fails at a load is told of, and starts again for the next."""

    def __init__(self, contenders: Sequence[Contender], results: Results, stack: ExitStack) -> None:
        self._results, self._stack = results, stack
        self._contenders = {contender.name: contender for contender in contenders}
        self._players: dict[str, Player] = {}
        for contender in contenders:
            self._start(contender)

    def run(self, when: str, load: str, requests: Load, name: str) -> None:
        """Nothing is run where the contender failed before."""
        if name not in self._players and (load, name) not in self._results.lost:
            self._start(self._contenders[name])
        if {(load, name), (START, name)} & self._results.lost.keys():
            return
        with self._noting(load, name):
            run = self._players[name].run(requests)
            self._results.runs.setdefault((load, name), []).append(run)
            pace = f"{self._results.pace(load)(run):.1f} tokens/s, {run.cpu:.1f} CPU s"
            self._tell(f"{when}, {load}, {name}: {pace}")

    def _start(self, contender: Contender) -> None:
        results, name = self._results, contender.name
        self._tell(f"starting {name}")
        with self._noting(START, name):
            contender.prepare()
            began = time.perf_counter()
            self._players[name] = player = contender.start()
            self._stack.callback(player.stop)
            first = player.run(FIRST)
            results.began.setdefault(name, Began(time.perf_counter() - began, first.peak_mb))
            results.about[name] = player.about
            player.run(warming(results.piece.loads(results.terms, 0)))

    @contextmanager
    def _noting(self, load: str, name: str) -> Iterator[None]:
        """Whoever fails in it is stopped and told of; the first contender's failure ends the measurement."""
        try:
            yield
        except Lost as lost:
            if name == next(iter(self._contenders)):
                raise
            self._results.lost[load, name] = str(lost).strip().splitlines()[-1].strip()
            self._tell(f"{load}, {name}: {lost}")
            if player := self._players.pop(name, None):
                player.stop()

    def _tell(self, line: str) -> None:
        print(f"{self._results.piece.name}: {line}", file=sys.stderr, flush=True)


def turned(names: list[str], number: int) -> list[str]:
    """The names in another order each time."""
    start = number % len(names)
    return names[start:] + names[:start]


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Median, lowest, highest."""
    return median(values), min(values), max(values)
