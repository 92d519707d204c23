"""Requests of all lengths at once: our engine beside transformers' continuous batching, both in process."""

from functools import partial
from random import Random

from scripts.bench.contender import Apart, Contender
from scripts.bench.continuous import Continuous
from scripts.bench.hearth import Hearth
from scripts.bench.load import Load, unlike
from scripts.bench.piece import Piece
from scripts.bench.terms import Terms


def loads(terms: Terms, number: int) -> dict[str, Load]:
    return {"64 mixed": unlike(Random(number), terms.vocab, 64, prompt=200, answer=100, spread=0.7)}


def contenders(terms: Terms) -> list[Contender]:
    return [
        Contender("hearth", partial(Apart, partial(Hearth, terms))),
        Contender("continuous", partial(Apart, partial(Continuous, terms))),
    ]


MIXED = Piece(
    "mixed",
    "64 requests of log-normal lengths, all there from the beginning, greedy; our engine beside the\n"
    "continuous batching of transformers, each with its own defaults.",
    "77m",
    loads,
    contenders,
)
