"""Poisoned requests of 20 kinds beside good ones: no server error, and no good answer changes.

    python -m scripts.robustness.poisoned --requests 1000

Starts a server.
"""

import argparse
import itertools
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from scripts.robustness.bystanders import bystanders, figures_of, idle_server
from scripts.robustness.figures import JudgedFigure, exit_code, print_table
from scripts.robustness.ordinary import MESSAGES, warm_up
from scripts.robustness.server import SMALL_KV_CACHE, Server, serving

ALONE_S = 5.0
NUM_CLIENTS = 4
COMPLETE, CHAT, GENERATE = "/v1/completions", "/v1/chat/completions", "/generate"
PROMPT = {"prompt": "hi", "max_tokens": 8}
NEODIM = {"prompt": "hi", "generated_tokens_count": 8, "max_total_tokens": 100}
KINDS: dict[str, tuple[str, Any]] = {
    "no JSON": (COMPLETE, b"{"),
    "not UTF-8": (COMPLETE, b'{"prompt": "\xff"}'),
    "a lone surrogate": (COMPLETE, b'{"prompt": "\\ud800"}'),
    "a deep body": (COMPLETE, b"[" * 5000),
    "an infinite number": (COMPLETE, b'{"prompt": "hi", "temperature": 1e999}'),
    "a huge number": (COMPLETE, PROMPT | {"seed": 10**400}),
    "a wrong type": (COMPLETE, PROMPT | {"temperature": []}),
    "ids beyond the vocabulary": (COMPLETE, {"prompt": [2**40], "max_tokens": 8}),
    "a long prompt": (COMPLETE, {"prompt": "word " * 50_000}),
    "endless bias": (COMPLETE, PROMPT | {"logit_bias": {"5": float("inf")}}),
    "every token banned": (COMPLETE, PROMPT | {"allowed_token_ids": []}),
    "many answers": (COMPLETE, PROMPT | {"n": 10**9}),
    "an invalid grammar": (COMPLETE, PROMPT | {"guided_grammar": "start: ("}),
    "an unsatisfiable schema": (
        COMPLETE,
        PROMPT | {"guided_json": {"allOf": [{"type": "null"}, {"enum": [1]}]}},
    ),
    "an unknown model": (COMPLETE, PROMPT | {"model": "no/such"}),
    "roles out of order": (CHAT, {"messages": [{"role": "tool", "content": "x"}, *MESSAGES]}),
    "content of no kind": (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
    "template arguments": (
        CHAT,
        {"messages": MESSAGES, "chat_template_kwargs": {"messages": 5}, "max_tokens": 2},
    ),
    "an endless pattern": (GENERATE, NEODIM | {"stop_strings": ["(a+)+$"], "stop_strings_type": "regex"}),
    "penalties of NaN": (GENERATE, b'{"inputs": "hi", "parameters": {"repetition_penalty": NaN}}'),
}


def send_all(server: Server, kinds: Iterator[str], statuses: Counter[tuple[str, int]]) -> None:
    for kind in kinds:
        statuses[kind, server.post(*KINDS[kind]).status] += 1


def poison(server: Server, num_requests: int) -> Counter[tuple[str, int]]:
    """Send the requests, kind after kind, from NUM_CLIENTS clients; returns the count of each status."""
    statuses: Counter[tuple[str, int]] = Counter()
    order = list(itertools.islice(itertools.cycle(KINDS), num_requests))
    threads = [
        threading.Thread(target=send_all, args=(server, iter(order[index::NUM_CLIENTS]), statuses))
        for index in range(NUM_CLIENTS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=1000)
    options = parser.parse_args()
    with serving(SMALL_KV_CACHE) as server, idle_server() as idle_port:
        warm_up(server)
        poison(server, 2 * len(KINDS))
        with bystanders(server, idle_port) as alone:
            time.sleep(ALONE_S)
        server.wait_until_idle()
        before_mb = server.usage().memory_mb
        with bystanders(server, idle_port) as waits:
            statuses = poison(server, options.requests)
        server.wait_until_idle()
        failed = {key: count for key, count in statuses.items() if key[1] >= 500 or key[1] == 0}
        num_answers = statuses.total()
        by_status: Counter[int] = Counter()
        for (_, status), count in statuses.items():
            by_status[status] += count
        figures = [
            JudgedFigure("kinds of requests", f"{len(KINDS)}", "20", len(KINDS) == 20),
            JudgedFigure(
                "answers",
                f"{num_answers}: {dict(by_status)}",
                f"{options.requests}",
                num_answers >= options.requests,
            ),
            JudgedFigure("server errors", f"{failed or 0}", "0", not failed),
            *figures_of(waits, alone, before_mb, server.usage().memory_mb),
        ]
    print_table("Poisoned requests", figures)
    return exit_code(figures)


if __name__ == "__main__":
    sys.exit(main())
