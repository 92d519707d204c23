"""The whole server, asked over HTTP, beside transformers' generate without one."""

from functools import partial

from scripts.bench.contender import Apart, Contender
from scripts.bench.generate import Generate
from scripts.bench.load import Load, Request
from scripts.bench.models import encode
from scripts.bench.piece import Piece
from scripts.bench.server import ours
from scripts.bench.terms import Terms

CLIENTS = (1, 8, 32)
ANSWER = 128


def loads(terms: Terms, number: int) -> dict[str, Load]:
    texts = [f"Count from {k % 9 + number} to {90 + k % 10}." for k in range(max(CLIENTS))]
    prompts = [encode(terms.model, text) for text in texts]
    return {f"{clients} clients": [Request(ids, ANSWER) for ids in prompts[:clients]] for clients in CLIENTS}


def contenders(terms: Terms) -> list[Contender]:
    return [
        Contender("hearth", partial(ours, terms)),
        Contender("generate", partial(Apart, partial(Generate, terms, max(CLIENTS)))),
    ]


HTTP = Piece(
    "http",
    "our server, each client a stream over HTTP, beside generate, which computes each load as one batch in\n"
    f"process, without server, streams or clients. Greedy, {ANSWER} tokens each.",
    "models/demo",
    loads,
    contenders,
)
