"""Guessing ahead: what it gains where a text repeats itself, what it costs where nothing comes again."""

from functools import partial

from scripts.bench.contender import Apart, Contender
from scripts.bench.hearth import Hearth, settled
from scripts.bench.load import Load, Request
from scripts.bench.models import encode
from scripts.bench.piece import Piece
from scripts.bench.terms import Terms

PHRASE = "red green blue "
CLIENTS = (1, 8)
ANSWER = 128


def loads(terms: Terms, number: int) -> dict[str, Load]:
    again, once = encode(terms.model, PHRASE * 30), encode(terms.model, PHRASE)
    found: dict[str, Load] = {}
    for clients in CLIENTS:
        seeds = range(1000 * number, 1000 * number + clients)
        found[f"{clients} repetitive"] = [Request(again, ANSWER, seed=seed) for seed in seeds]
        found[f"{clients} random"] = [Request(once, ANSWER, temperature=2.0, seed=seed) for seed in seeds]
    return found


def contenders(terms: Terms) -> list[Contender]:
    terms = settled(terms)
    return [
        Contender(f"{terms.drafts} drafts", partial(Apart, partial(Hearth, terms, drafts=terms.drafts))),
        Contender("none", partial(Apart, partial(Hearth, terms))),
    ]


SPECULATION = Piece(
    "speculation",
    "our engine with SPECULATE and without. Repetitive: a phrase over and over, greedy, and the model goes\n"
    "on with it: the best case there is, no text that people ask for gains as much. Random: temperature 2,\n"
    "where nothing comes again: the worst case.",
    "models/demo",
    loads,
    contenders,
)
