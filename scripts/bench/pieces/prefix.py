"""A long beginning that many prompts share: a system prompt, a document that is asked about."""

from functools import partial
from random import Random

from scripts.bench.contender import Apart, Contender
from scripts.bench.hearth import Hearth, settled
from scripts.bench.load import Load, Request, words
from scripts.bench.piece import Piece
from scripts.bench.terms import Terms

COUNT, SHARED, OWN, ANSWER = 32, 1000, 16, 16  # requests, and tokens


def loads(terms: Terms, number: int) -> dict[str, Load]:
    """All at once behind a beginning that is new in each round; then one more, when they are through."""
    random = Random(number)
    shared = words(random, SHARED, terms.vocab)
    requests = [Request(shared + words(random, OWN, terms.vocab), ANSWER) for _ in range(COUNT + 1)]
    return {f"{COUNT} at once": requests[:COUNT], "1 later": requests[COUNT:]}


def contenders(terms: Terms) -> list[Contender]:
    terms = settled(terms)
    return [
        Contender("reuse", partial(Apart, partial(Hearth, terms))),
        Contender("none", partial(Apart, partial(Hearth, terms, reuse=False))),
    ]


PREFIX = Piece(
    "prefix",
    f"{COUNT} prompts share their first {SHARED} tokens, {OWN} are their own, answers have {ANSWER};\n"
    "our engine with PREFIX_CACHING and without. The first to come computes what is shared.",
    "77m",
    loads,
    contenders,
)
