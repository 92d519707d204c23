"""What a step takes besides the model: our engine in process, profiled, and behind its server."""

from dataclasses import replace
from functools import partial
from random import Random

from scripts.bench.contender import Apart, Contender
from scripts.bench.hearth import Hearth
from scripts.bench.load import Load, alike
from scripts.bench.piece import Piece
from scripts.bench.server import ours
from scripts.bench.terms import Terms

STREAMS, PROMPT, ANSWER = 16, 16, 64
# What the streams ask of the sampler.
ASKED = {
    "greedy": {},
    "temperature 1": {"temperature": 1.0},
    "0.7, top-k, top-p": {"temperature": 0.7, "top_k": 40, "top_p": 0.9},
}


def loads(terms: Terms, number: int) -> dict[str, Load]:
    random = Random(number)
    return {
        f"{STREAMS} {name}": [
            replace(request, seed=seed, **asked)
            for seed, request in enumerate(alike(random, terms.vocab, STREAMS, PROMPT, ANSWER))
        ]
        for name, asked in ASKED.items()
    }


def contenders(terms: Terms) -> list[Contender]:
    return [
        Contender("in process", partial(Apart, partial(Hearth, replace(terms, profile=True)))),
        Contender("server", partial(ours, terms)),
    ]


OUTSIDE = Piece(
    "outside",
    f"{STREAMS} streams of {ANSWER} tokens: what share of their time is not the model's, and what HTTP adds.",
    "0.5b",
    loads,
    contenders,
)
