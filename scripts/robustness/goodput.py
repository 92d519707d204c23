"""Tokens per second at the server's capacity, and with four times as many clients.

    python -m scripts.robustness.goodput --seconds 60

Starts a server that accepts as many requests as it has rows. The two loads take turns of a few seconds, and
each pair of turns has a ratio: a machine whose speed changes gives a usable one. Their mean is as good as its
standard error: more --seconds give more pairs. Refused clients wait for the Retry-After that they are told,
and up to a second more: they do not all return at the same time. Takes twice the seconds.
"""

import argparse
import json
import math
import random
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import mean, median, quantiles, stdev
from typing import BinaryIO, NamedTuple

from scripts.loopback import HOST
from scripts.robustness.figures import JudgedFigure, exit_code, print_table
from scripts.robustness.ordinary import warm_up
from scripts.robustness.server import Server, serving

NUM_ROWS = 16
OVERLOAD = 4
TURN_S = 3.0
SETTLE_S = 0.5  # of a turn, before anything is counted
RETURN_S = 2.0  # within which the clients beyond the rows first ask: they are spread as after a refusal
NUM_TOKENS = 50
MIN_SHARE, MAX_ERROR = 0.97, 0.02
MAX_REFUSAL_S = 0.005
MIN_REFUSED_SHARE = 0.99  # within MAX_REFUSAL_S
BODY = json.dumps({"prompt": "Once upon a time", "max_tokens": NUM_TOKENS, "ignore_eos": True}).encode()
# The clients share the cores with the server: http.client takes as much CPU time as a refusal.
REQUEST = (
    f"POST /v1/completions HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    f"Content-Length: {len(BODY)}\r\n\r\n"
).encode() + BODY


@dataclass(slots=True)
class Turn:
    """Counts once the turn has settled.

    num_tokens  that the server generated; all of them are of complete answers
    num_steps   in which it did
    refusals_s  the seconds of each refusal
    seconds     that were counted
    server_s    CPU time of the server meanwhile
    unexpected  statuses other than 200 and 429
    """

    num_tokens: float = 0.0
    num_steps: float = 0.0
    seconds: float = 0.0
    server_s: float = 0.0
    refusals_s: list[float] = field(default_factory=list)
    unexpected: set[int] = field(default_factory=set)
    is_counting: bool = False
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def goodput(self) -> float:
        """Tokens per second."""
        return self.num_tokens / self.seconds

    @property
    def step_tokens(self) -> float:
        """Tokens of a step: fewer while rows wait for a request."""
        return self.num_tokens / self.num_steps

    @property
    def token_s(self) -> float:
        """CPU time of the server for each token."""
        return self.server_s / self.num_tokens


@dataclass(frozen=True, slots=True)
class Pair:
    """Two turns, one after the other."""

    peak: Turn
    overloaded: Turn


def run_pair(server: Server, is_peak_first: bool) -> Pair:
    order = 1 if is_peak_first else -1
    turns = [run_turn(server, num_clients) for num_clients in (NUM_ROWS, OVERLOAD * NUM_ROWS)[::order]]
    return Pair(*turns[::order])


def run_turn(server: Server, num_clients: int) -> Turn:
    turn = Turn()
    delays_s = [0.0] * NUM_ROWS + [random.uniform(0, RETURN_S) for _ in range(num_clients - NUM_ROWS)]
    threads = [threading.Thread(target=keep_asking, args=(server, turn, delay_s)) for delay_s in delays_s]
    for thread in threads:
        thread.start()
    time.sleep(SETTLE_S)
    (num_tokens, num_steps), start, start_cpu_s = work_of(server), time.perf_counter(), server.cpu_s()
    turn.is_counting = True
    time.sleep(TURN_S - SETTLE_S)
    turn.is_counting = False
    end_tokens, end_steps = work_of(server)
    turn.num_tokens, turn.num_steps = end_tokens - num_tokens, end_steps - num_steps
    turn.seconds, turn.server_s = time.perf_counter() - start, server.cpu_s() - start_cpu_s
    turn.over.set()
    for thread in threads:
        thread.join()
    return turn


def work_of(server: Server) -> tuple[float, float]:
    """The tokens that it has generated, and its steps."""
    return server.metric("hearth_generated_tokens_total"), server.metric("hearth_steps_total")


def keep_asking(server: Server, turn: Turn, delay_s: float) -> None:
    turn.over.wait(delay_s)
    with server.open_socket() as connection, connection.makefile("rb") as reader:
        while not turn.over.is_set():
            start = time.perf_counter()
            connection.sendall(REQUEST)
            status, retry_after_s = read_response(reader)
            if status == 429:
                if turn.is_counting:
                    turn.refusals_s.append(time.perf_counter() - start)
                turn.over.wait(retry_after_s + random.random())
            elif status != 200:
                turn.unexpected.add(status)


def read_response(reader: BinaryIO) -> tuple[int, float]:
    """The status of a response, and its Retry-After; 0 without one."""
    status, headers = int(reader.readline().split()[1]), {}
    while line := reader.readline().strip():
        name, _, value = line.partition(b":")
        headers[name.lower()] = value
    reader.read(int(headers[b"content-length"]))
    return status, float(headers.get(b"retry-after", 0))


class MeanRatio(NamedTuple):
    """The geometric mean of the pairs' ratios, and its standard error."""

    mean: float
    error: float
    num_pairs: int

    def __str__(self) -> str:
        return f"{self.mean:.1%} ± {self.error:.1%} (mean of {self.num_pairs} pairs, and its standard error)"

    def reaches(self, target: float) -> bool | None:
        """None: the error is too large to tell."""
        if self.mean >= target:
            return True if self.error <= MAX_ERROR else None
        return None if self.mean + 2 * self.error >= target else False


def mean_ratio(ratios: Sequence[float]) -> MeanRatio:
    logs = [math.log(ratio) for ratio in ratios]
    middle = math.exp(mean(logs))
    return MeanRatio(middle, middle * stdev(logs) / math.sqrt(len(logs)), len(logs))


def goodput_figures(pairs: Sequence[Pair]) -> list[JudgedFigure]:
    ratio = mean_ratio([pair.overloaded.goodput / pair.peak.goodput for pair in pairs])
    batch = mean_ratio([pair.overloaded.step_tokens / pair.peak.step_tokens for pair in pairs])
    cost = mean_ratio([pair.overloaded.token_s / pair.peak.token_s for pair in pairs])
    peak, overloaded = (
        median(turn.goodput for turn in turns) for turns in zip(*map(turns_of, pairs), strict=True)
    )
    return [
        JudgedFigure("goodput with a client for each row", f"{peak:.0f} tokens/s", "", True),
        JudgedFigure(
            f"goodput with {OVERLOAD} clients for each row",
            f"{overloaded:.0f} tokens/s: {ratio}",
            f"{MIN_SHARE:.0%}",
            ratio.reaches(MIN_SHARE),
        ),
        JudgedFigure("CPU time of the server for a token, likewise", str(cost), "", True),
        JudgedFigure("tokens of a step, likewise", str(batch), "", True),
    ]


def turns_of(pair: Pair) -> tuple[Turn, Turn]:
    return pair.peak, pair.overloaded


def refusal_figures(turns: Sequence[Turn], server: Server) -> list[JudgedFigure]:
    num_refusals = server.metric("hearth_refusal_seconds_count")
    num_quick = server.metric("hearth_refusal_seconds_bucket", f'le="{MAX_REFUSAL_S}"')
    refusals_s = [seconds for turn in turns for seconds in turn.refusals_s]
    p50, p99 = (quantiles(refusals_s, n=100)[percent - 1] * 1e3 for percent in (50, 99))
    unexpected = set().union(*(turn.unexpected for turn in turns))
    return [
        JudgedFigure(
            "refusals, from the last byte that the server read to its response",
            f"{num_quick / num_refusals:.1%} of {num_refusals:.0f} within {MAX_REFUSAL_S * 1e3:.0f} ms",
            f"{MIN_REFUSED_SHARE:.0%}",
            num_quick >= MIN_REFUSED_SHARE * num_refusals,
        ),
        JudgedFigure(
            "the same, seen by a client on the same cores", f"p50 {p50:.1f} ms, p99 {p99:.1f} ms", "", True
        ),
        JudgedFigure("other statuses", f"{unexpected or 'none'}", "none", not unexpected),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="of each load")
    options = parser.parse_args()
    num_pairs = max(2, round(options.seconds / TURN_S))
    with serving(f"--max-concurrent-requests={NUM_ROWS}", f"--max-sequences={NUM_ROWS}") as server:
        warm_up(server)
        pairs = [run_pair(server, is_peak_first=index % 2 == 0) for index in range(num_pairs)]
        turns = [turn for pair in pairs for turn in turns_of(pair)]
        figures = [*goodput_figures(pairs), *refusal_figures(turns, server)]
    print_table("Overload", figures)
    return exit_code(figures)


if __name__ == "__main__":
    sys.exit(main())
