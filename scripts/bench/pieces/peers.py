"""Our server beside the other engines that are installed, weights of one precision at a time."""

from functools import partial
from random import Random

from scripts.bench import bandwidth
from scripts.bench.contender import Apart, Contender
from scripts.bench.hearth import Hearth
from scripts.bench.load import Load, Request, Run, alike, words
from scripts.bench.models import bytes_read, folder
from scripts.bench.peers import PEERS
from scripts.bench.peers.peer import PRECISIONS
from scripts.bench.piece import Piece
from scripts.bench.server import ours
from scripts.bench.terms import NONE, QUANTISE, Terms

SHORT, LONG, ANSWER = 64, 1024, 128  # tokens
# Prompts and answers of 16 requests, drawn once, log-normal: 5,331 and 2,185 tokens in all.
MIXED = (
    *((153, 145), (155, 105), (552, 83), (69, 305), (312, 105), (71, 76), (746, 110), (398, 78)),
    *((893, 84), (243, 86), (456, 281), (283, 103), (206, 111), (382, 143), (143, 279), (269, 91)),
)
PROMPTS, ANSWERS = map(sum, zip(*MIXED, strict=True))


def loads(terms: Terms, number: int) -> dict[str, Load]:
    """Prompts are new in each round, so that nothing of them is kept anywhere."""
    random, vocab = Random(number), terms.vocab
    every = {
        "decode": alike(random, vocab, 1, SHORT, ANSWER),
        "prefill": alike(random, vocab, 1, LONG, 1),
        "mixed": [Request(words(random, prompt, vocab), answer) for prompt, answer in MIXED],
    }
    return {name: load for name, load in every.items() if name in (terms.only or every)}


def contenders(terms: Terms) -> list[Contender]:
    form = precision(terms)
    found = [Contender("hearth", partial(ours, terms), partial(folder, terms.model))]
    if terms.profile:
        found.append(Contender("hearth, in process", partial(Apart, partial(Hearth, terms))))
    for name, peer in PEERS.items():
        if form in peer.forms and name in (terms.against or PEERS) and peer.installed(terms):
            found.append(peer.contender(terms, form))
    return found


def precision(terms: Terms) -> str:
    return PRECISIONS[0] if terms.quantise == NONE else terms.quantise


def decoded(run: Run) -> float:
    """Tokens per second after the first."""
    (stamps,) = run.stamps
    return (run.tokens - 1) / (stamps[-1] - stamps[0])


def read(run: Run) -> float:
    """Tokens of the prompt per second until the first of the answer."""
    return LONG / run.stamps[0][0]


def limit(terms: Terms) -> tuple[float, str]:
    """What the memory allows: keys and values, which are few here, are not counted."""
    rate, size = bandwidth.read(terms.threads), bytes_read(terms.model, terms.quantise)
    return rate / size, f"{rate / 1e9:.1f} GB/s read, {size / 1e6:.0f} MB of weights a token"


PEERS_PIECE = Piece(
    "peers",
    f"our server and the other engines, by their servers where they have one. Greedy.\n"
    f"decode: {SHORT} tokens of prompt, {ANSWER} of answer; its tokens after the first, per second.\n"
    f"prefill: {LONG} tokens of prompt, per second until the first of the answer.\n"
    f"mixed: {len(MIXED)} requests, {PROMPTS} tokens of prompts, {ANSWERS} of answers; these, per second.\n"
    f"peak MB: resident, of all processes of an engine.",
    "0.5b",
    loads,
    contenders,
    {"decode": decoded, "prefill": read},
    limit,
    QUANTISE,
)
