"""The longest gap of a stream beside each kind of ordinary traffic or large bodies, and alone.

    python -m scripts.robustness.gaps --seconds 10

Starts a server. The stream is measured alone before each kind: what else the machine does changes meanwhile.
Takes twice the seconds for each kind.
"""

import argparse
import random
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

from scripts.robustness.bystanders import MAX_GAP_RATIO, Waits, bystanders, idle_server
from scripts.robustness.figures import JudgedFigure, exit_code, print_table
from scripts.robustness.hostile_bodies import BODIES, repeated
from scripts.robustness.hostile_inputs import COMPUTED, TOO_LARGE
from scripts.robustness.ordinary import JSON_FORMAT, MESSAGES, TOOL, WORDS, warm_up
from scripts.robustness.server import SMALL_KV_CACHE, Server, serving

NUM_CLIENTS = 4
NUM_LONG_WORDS = 700  # nearly the context of the demo model
NUM_INPUTS = 64
COMPLETE, CHAT = "/v1/completions", "/v1/chat/completions"
Body = dict[str, Any]
numbers = count()


def words(num_words: int) -> str:
    return " ".join(random.choice(WORDS) for _ in range(num_words))


def new_grammar() -> Body:
    """A grammar that the server has not compiled before."""
    pattern = f"[a-z]{{1,40}}{next(numbers)}"
    return {"messages": MESSAGES, "max_tokens": 32, "structured_outputs": {"regex": pattern}}


class Kind(NamedTuple):
    """Requests of one kind of traffic. statuses: that may answer them"""

    path: str
    make_body: Callable[[], Body | bytes]
    statuses: frozenset[int] = frozenset((200,))


def large_body(path: str, body: bytes) -> Kind:
    return Kind(path, lambda: body, COMPUTED | TOO_LARGE)


def long_text(unit: str) -> Kind:
    return large_body(COMPLETE, repeated(b'{"prompt": "', unit.encode(), b'"}'))


LARGE_BODIES = "token ids", "ids to detokenize", "too many ids", "keys", "strings", "messages", "escapes"
KINDS = {
    "chats": Kind(CHAT, lambda: {"messages": MESSAGES, "max_tokens": 32}),
    "tools": Kind(
        CHAT, lambda: {"messages": MESSAGES, "max_tokens": 32, "tools": [TOOL], "tool_choice": "required"}
    ),
    "schemas": Kind(CHAT, lambda: {"messages": MESSAGES, "max_tokens": 32, "response_format": JSON_FORMAT}),
    "new grammars": Kind(CHAT, new_grammar),
    "long texts": Kind(COMPLETE, lambda: {"prompt": words(NUM_LONG_WORDS), "max_tokens": 8}),
    "embeddings": Kind("/v1/embeddings", lambda: {"input": [words(60) for _ in range(NUM_INPUTS)]}),
    "body: ASCII": long_text("word "),
    "body: Chinese": long_text("漢字"),
    "body: ASCII with Chinese": long_text("word " * 40 + "漢"),
    "body: ASCII with emoji": long_text("word " * 40 + "😀"),
    **{f"body: {name}": large_body(*BODIES[name]) for name in LARGE_BODIES},
}


def keep_posting(server: Server, kind: str, over: threading.Event, statuses: set[int]) -> None:
    while not over.is_set():
        statuses.add(server.post(KINDS[kind].path, KINDS[kind].make_body()).status)


def measure(server: Server, idle_port: int, kind: str, seconds: float) -> tuple[Waits, set[int]]:
    """The bystanders beside NUM_CLIENTS clients of one kind, and the statuses of those."""
    statuses: set[int] = set()
    over = threading.Event()
    clients = [
        threading.Thread(target=keep_posting, args=(server, kind, over, statuses)) for _ in range(NUM_CLIENTS)
    ]
    with bystanders(server, idle_port) as waits:
        for client in clients:
            client.start()
        time.sleep(seconds)
        over.set()
        for client in clients:
            client.join()
    return waits, statuses


def measure_alone(server: Server, idle_port: int, seconds: float) -> Waits:
    with bystanders(server, idle_port) as waits:
        time.sleep(seconds)
    return waits


def figure_of(kind: str, alone: Waits, in_traffic: Waits, statuses: set[int]) -> JudgedFigure:
    gap, gap_alone = in_traffic.longest_gap_s * 1e3, alone.longest_gap_s * 1e3
    noise = max(in_traffic.noise_s) * 1e3
    is_met = statuses <= KINDS[kind].statuses and (
        gap <= MAX_GAP_RATIO * gap_alone or (None if in_traffic.is_noisy else False)
    )
    value = f"{gap:.0f} ms; alone {gap_alone:.0f} ms; the idle server {noise:.0f} ms; statuses {statuses}"
    return JudgedFigure(f"longest gap beside {kind}", value, f"{MAX_GAP_RATIO:g} x alone", is_met)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--only", default="", help="kinds whose name begins so")
    options = parser.parse_args()
    figures = []
    with serving(SMALL_KV_CACHE) as server, idle_server() as idle_port:
        warm_up(server)
        for kind in [kind for kind in KINDS if kind.startswith(options.only)]:
            alone = measure_alone(server, idle_port, options.seconds)
            figures.append(figure_of(kind, alone, *measure(server, idle_port, kind, options.seconds)))
    print_table("Gaps of a stream", figures)
    return exit_code(figures)


if __name__ == "__main__":
    sys.exit(main())
