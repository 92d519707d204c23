"""Compares the Retry-After of an overloaded server with what was true, by reason and dialect.

    python -m scripts.robustness.retry_after --seconds 10

Starts a server for each reason, and clients that keep it full. One more client asks all the time: a refusal
lasted until the next request, of any client, was accepted. The seconds are for each row.
"""

import argparse
import random
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from statistics import median, quantiles
from typing import NamedTuple

from scripts.robustness.figures import JudgedFigure, exit_code, print_table
from scripts.robustness.refusal_reasons import REASONS, MakePost, Post, Reason
from scripts.robustness.server import JSON_TYPE, Server

POLL_S = 0.1
MAX_PROBES = 32  # at a time: an accepted one waits for its answer
SETTLE_S = 2.0  # until the server is full
TIMEOUT_S = 300.0
REFUSING = 429, 503
RETURN_S = 1.0, 3.0  # until a refused one returns
MAX_ERROR_S, MAX_ERROR_RATIO = 1.0, 0.25
MIN_SHARE = 0.9  # of the refusals, within the larger of both


class RefusedAttempt(NamedTuple):
    """The Retry-After of a refused request, and the seconds after which one was accepted."""

    retry_after_s: float
    actual_s: float

    @property
    def error_s(self) -> float:
        return abs(self.retry_after_s - self.actual_s)

    @property
    def is_close(self) -> bool:
        return self.error_s <= max(MAX_ERROR_S, MAX_ERROR_RATIO * self.actual_s)


@contextmanager
def load(server: Server, reason: Reason, accepted_at: list[float]) -> Iterator[None]:
    """Keep the server full until the block ends; add when requests were sent that were accepted."""
    over = threading.Event()

    def keep_asking(seed: int) -> None:
        draws = random.Random(seed)
        while not over.is_set():
            start = time.monotonic()
            is_accepted = ask(server, reason.make_load(server, draws)) is None
            if is_accepted and reason.is_shared:
                accepted_at.append(start)
            over.wait(reason.pause_s if is_accepted else draws.uniform(*RETURN_S))

    threads = [threading.Thread(target=keep_asking, args=(seed,)) for seed in range(reason.num_clients)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def ask(server: Server, probe: Post) -> float | None:
    """The Retry-After of a refused request; None if it was accepted."""
    connection = server.connect(TIMEOUT_S)
    with suppress(OSError):  # the server refuses a large body before it is whole
        connection.request("POST", probe.path, probe.body, JSON_TYPE)
    response = connection.getresponse()
    response.read()
    connection.close()
    return float(response.getheader("Retry-After") or 0) if response.status in REFUSING else None


def probe_for(
    seconds: float, server: Server, make_probe: MakePost, accepted_at: list[float]
) -> list[tuple[float, float]]:
    """Ask for so long. Returns when requests were refused, and their Retry-After."""
    refused: list[tuple[float, float]] = []
    draws = random.Random(-1)

    def ask_once() -> None:
        probe, start = make_probe(server, draws), time.monotonic()
        retry_after_s = ask(server, probe)
        if retry_after_s is None:
            accepted_at.append(start)
        else:
            refused.append((time.monotonic(), retry_after_s))

    with ThreadPoolExecutor(MAX_PROBES) as threads:
        for _ in range(round(seconds / POLL_S)):
            threads.submit(ask_once)
            time.sleep(POLL_S)
    return refused


def with_actual_waits(
    refused: Sequence[tuple[float, float]], accepted_at: Sequence[float]
) -> list[RefusedAttempt]:
    """Each refusal lasted until the next request of any client was accepted."""
    times = sorted(accepted_at)
    return [
        RefusedAttempt(retry_after_s, times[index] - at)
        for at, retry_after_s in refused
        if (index := bisect_left(times, at)) < len(times)
    ]


def measure(reason: Reason, seconds: float) -> dict[str, list[RefusedAttempt]]:
    """The refusals in each dialect."""
    accepted_at: list[float] = []
    with reason.open() as server, load(server, reason, accepted_at):
        time.sleep(SETTLE_S)
        refused = {
            dialect: probe_for(max(seconds, reason.min_seconds), server, make_probe, accepted_at)
            for dialect, make_probe in reason.probes.items()
        }
    return {dialect: with_actual_waits(each, accepted_at) for dialect, each in refused.items()}


def judge(name: str, refusals: Sequence[RefusedAttempt]) -> JudgedFigure:
    target = f"{MIN_SHARE:.0%} within {MAX_ERROR_RATIO:.0%} or {MAX_ERROR_S:g} s"
    if len(refusals) < 2:
        return JudgedFigure(name, f"{len(refusals)} refusals", target, None)
    errors = [refusal.error_s for refusal in refusals]
    share = sum(refusal.is_close for refusal in refusals) / len(refusals)
    retry_after, actual = (median(seconds) for seconds in zip(*refusals, strict=True))
    value = (
        f"{len(refusals)} refusals: Retry-After {retry_after:.0f} s, actually {actual:.1f} s (medians); "
        f"error {median(errors):.1f} s, p90 {quantiles(errors, n=10)[-1]:.1f} s; {share:.0%} within"
    )
    return JudgedFigure(name, value, target, share >= MIN_SHARE)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--only", default="", help="reasons whose name begins so")
    options = parser.parse_args()
    figures: list[JudgedFigure] = []
    for name, reason in REASONS.items():
        if not name.startswith(options.only):
            continue
        refusals = measure(reason, options.seconds)
        figures += [judge(f"{name}, {dialect}", each) for dialect, each in refusals.items()]
    print_table("Retry-After", figures)
    return exit_code(figures)


if __name__ == "__main__":
    sys.exit(main())
