"""Tokens per second of complete answers at the server's capacity, and with four times as many clients.

    python -m scripts.robustness.goodput --seconds 60

Starts a server that accepts as many requests as it has rows. Refused clients wait for the Retry-After that
they are told, and up to a second more: they do not all return at the same time. Takes twice the seconds.
"""

import argparse
import json
import random
import sys
import threading
import time
from dataclasses import dataclass, field
from statistics import quantiles

from scripts.robustness.figures import JudgedFigure, exit_code, print_table
from scripts.robustness.ordinary import warm_up
from scripts.robustness.server import JSON_TYPE, Server, serving

NUM_ROWS = 16
OVERLOAD = 4
NUM_TOKENS = 50  # short: few answers are cut by the end of the time
MIN_SHARE = 0.97
BODY = json.dumps({"prompt": "Once upon a time", "max_tokens": NUM_TOKENS, "ignore_eos": True})


@dataclass(slots=True)
class Load:
    """What clients have counted: complete answers, and the seconds of each refusal; other statuses."""

    num_answers: int = 0
    refusals_s: list[float] = field(default_factory=list)
    unexpected: set[int] = field(default_factory=set)


def keep_asking(server: Server, end: float, load: Load) -> None:
    connection = server.connect()
    while time.monotonic() < end:
        start = time.perf_counter()
        connection.request("POST", "/v1/completions", BODY, JSON_TYPE)
        response = connection.getresponse()
        response.read()
        if response.status == 200:
            load.num_answers += time.monotonic() < end
        elif response.status == 429:
            load.refusals_s.append(time.perf_counter() - start)
            time.sleep(float(response.getheader("Retry-After") or 1) + random.random())
        else:
            load.unexpected.add(response.status)


def run_load(server: Server, num_clients: int, seconds: float) -> Load:
    load, end = Load(), time.monotonic() + seconds
    threads = [threading.Thread(target=keep_asking, args=(server, end, load)) for _ in range(num_clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return load


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    limits = (f"--max-concurrent-requests={NUM_ROWS}", f"--max-sequences={NUM_ROWS}")
    with serving(*limits) as server:
        warm_up(server)
        peak = run_load(server, NUM_ROWS, options.seconds)
        overloaded = run_load(server, OVERLOAD * NUM_ROWS, options.seconds)
    peak_rate, rate = (load.num_answers * NUM_TOKENS / options.seconds for load in (peak, overloaded))
    p50, p99 = (quantiles(overloaded.refusals_s, n=100)[percent - 1] * 1e3 for percent in (50, 99))
    figures = [
        JudgedFigure("goodput with a client for each row", f"{peak_rate:.0f} tokens/s", "", True),
        JudgedFigure(
            f"goodput with {OVERLOAD} clients for each row",
            f"{rate:.0f} tokens/s, {rate / peak_rate:.0%}",
            f"{MIN_SHARE:.0%}",
            rate >= MIN_SHARE * peak_rate,
        ),
        JudgedFigure(
            "refusals",
            f"{len(overloaded.refusals_s)}: p50 {p50:.1f} ms, p99 {p99:.1f} ms",
            "p99 5 ms",
            p99 <= 5,
        ),
        JudgedFigure(
            "other statuses",
            f"{overloaded.unexpected | peak.unexpected or 'none'}",
            "none",
            not overloaded.unexpected,
        ),
    ]
    print_table("Overload", figures)
    return exit_code(figures)


if __name__ == "__main__":
    sys.exit(main())
