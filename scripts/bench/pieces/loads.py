"""Loads of unlike shapes: our engine beside transformers' generate in static batches, both in process."""

from functools import partial
from random import Random

from scripts.bench.contender import Apart, Contender
from scripts.bench.generate import Generate
from scripts.bench.hearth import Hearth
from scripts.bench.load import Load, alike, unlike
from scripts.bench.piece import Piece
from scripts.bench.terms import Terms


def loads(terms: Terms, number: int) -> dict[str, Load]:
    random, vocab = Random(number), terms.vocab
    return {
        "64 short": alike(random, vocab, 64, prompt=32, answer=32),
        "4 long": alike(random, vocab, 4, prompt=1000, answer=200),
        "64 short, spread": unlike(random, vocab, 64, prompt=32, answer=32, spread=0.7),
        "4 long, spread": unlike(random, vocab, 4, prompt=700, answer=150, spread=0.5),
    }


def contenders(terms: Terms) -> list[Contender]:
    static = [
        Contender(f"generate, {batch}", partial(Apart, partial(Generate, terms, batch)))
        for batch in terms.batches
    ]
    return [Contender("hearth", partial(Apart, partial(Hearth, terms))), *static]


LOADS = Piece(
    "loads",
    "many short and few long requests, all there from the beginning, greedy; our engine beside generate in\n"
    "batches in order of arrival. Alike: prompts and answers of one length, which is generate's best case.\n"
    "Spread: log-normal lengths, as chats have; a batch then waits for its longest answer.",
    "77m",
    loads,
    contenders,
)
