"""Refuses memory to a serving process, wherever it allocates, and whether it answers afterwards.

    python -m scripts.robustness.out_of_memory

Starts a server. While it answers requests of every kind, its address space is limited to what it has mapped
and a little more, which differs from round to round: allocations of Python, of the C library, of torch, of
threads and of files fail. Linux only.
"""

import argparse
import random
import sys
import threading
import time
from collections import Counter

import psutil

from scripts.robustness.bystanders import STREAM
from scripts.robustness.figures import JudgedFigure, exit_code, print_table
from scripts.robustness.hostile_inputs import INPUTS
from scripts.robustness.ordinary import ORDINARY, warm_up
from scripts.robustness.server import Server, serving

# Megabytes that the server may map in each round beyond what it has.
FREE_MB = (0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
ROUND_S = 3.0
SETTLE_S = 1.0
NUM_CLIENTS = 8
# Bodies, embeddings and grammars that need memory.
LARGE = [
    (each.path, each.body) for name, each in INPUTS.items() if name.startswith(("body", "emb", "schema"))
]
ALLOWED = frozenset((200, 400, 413, 422, 429, 500, 503, 507))


def send(server: Server, seed: int, over: threading.Event, statuses: Counter[int]) -> None:
    draws = random.Random(seed)
    while not over.is_set():
        statuses[server.post(*draws.choice([*ORDINARY, *LARGE] if seed % 2 else ORDINARY)).status] += 1


def run_round(server: Server, free_mb: int, statuses: Counter[int]) -> None:
    """Send requests for ROUND_S while the server may map `free_mb` more than it has."""
    process, over = psutil.Process(server.process.pid), threading.Event()
    threads = [
        threading.Thread(target=send, args=(server, seed, over, statuses)) for seed in range(NUM_CLIENTS)
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    limit = process.memory_info().vms + free_mb * (1 << 20)
    process.rlimit(psutil.RLIMIT_AS, (limit, psutil.RLIM_INFINITY))
    time.sleep(ROUND_S)
    if server.is_alive:
        process.rlimit(psutil.RLIMIT_AS, (psutil.RLIM_INFINITY, psutil.RLIM_INFINITY))
    over.set()
    for thread in threads:
        thread.join()


def count_answers(server: Server, text: bytes) -> int:
    """How many of the ordinary requests, and of one stream, are answered as before."""
    is_same = tokens_of(server.post("/v1/completions", STREAM).body) == text
    return is_same + sum(server.post(path, body).status == 200 for path, body in ORDINARY)


def end_of_round(server: Server, text: bytes) -> str:
    """What became of the server: it answers as before, or not, or its process has ended."""
    time.sleep(SETTLE_S)
    if not server.is_alive:
        return f"ended by {server.process.returncode}"
    is_good = count_answers(server, text) == len(ORDINARY) + 1
    return "answers as before" if is_good else "alive, and does not answer as before"


def tokens_of(stream: bytes) -> bytes:
    """A stream without its id and its time."""
    lines = (line for line in stream.splitlines() if b'"choices"' in line)
    return b"".join(line[line.index(b'"choices"') :] for line in lines)


def main() -> int:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    totals: Counter[int] = Counter()
    ends: Counter[str] = Counter()
    remaining_mb = list(FREE_MB)
    while remaining_mb:
        with serving() as server:
            warm_up(server)
            text = tokens_of(server.post("/v1/completions", STREAM).body)
            while remaining_mb and server.is_alive:
                free_mb, statuses = remaining_mb.pop(0), Counter[int]()
                run_round(server, free_mb, statuses)
                end = end_of_round(server, text)
                ends[end] += 1
                totals += statuses
                print(f"{free_mb:4} MB: {dict(statuses)}: {end}", flush=True)
    unexpected = {status: count for status, count in totals.items() if status not in ALLOWED}
    num_dead = ends["alive, and does not answer as before"]
    figures = [
        JudgedFigure("rounds", f"{dict(ends)}", "", True),
        JudgedFigure("servers that live and do not answer", f"{num_dead}", "0", not num_dead),
        JudgedFigure("answers while memory was refused", f"{dict(totals)}", "no other 5xx", not unexpected),
    ]
    print_table("Memory refused", figures)
    return exit_code(figures)


if __name__ == "__main__":
    sys.exit(main())
