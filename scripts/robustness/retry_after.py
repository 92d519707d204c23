"""Compares the Retry-After of an overloaded server with what was true, by reason and dialect.

    python -m scripts.robustness.retry_after --seconds 10

Starts a server for each reason, and clients that keep it full. One more client asks all the time: a refusal
lasted until the next request, of any client, was accepted. The seconds are for each row.

Nothing tells beforehand that the machine's speed will change. The share at the engine's speed is of waits
that are counted in CPU time of the server, or in tokens of the other one, at the rate just before the
refusal. The share that is accepted after these seconds is of clients that return exactly then: another one
may have been quicker.
"""

import argparse
import http.client
import random
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from statistics import mean, median, quantiles
from typing import NamedTuple

from inference.drain_rate import MAX_RETRY_S
from scripts.robustness.figures import JudgedFigure, exit_code, print_table
from scripts.robustness.refusal_reasons import REASONS, MakePost, Post, Reason
from scripts.robustness.server import JSON_TYPE, Server
from scripts.robustness.work_clock import RECENT_S, WorkClock

POLL_S = 0.1
CHUNK_BYTES = 1 << 20
MAX_PROBES = 32  # at a time: an accepted one waits for its answer
SETTLE_S = 2.0  # until the server is full
TIMEOUT_S = 300.0
REFUSING = 429, 503
RETURN_S = 1.0, 3.0  # until a refused one returns
MAX_ERROR_S, MAX_ERROR_RATIO = 1.0, 0.25
MIN_SHARE = 0.9  # of the refusals, within the larger of both


class Poll(NamedTuple):
    """A request of the client that asks all the time. retry_after_s: None if it was accepted"""

    at: float
    retry_after_s: float | None


class RefusedAttempt(NamedTuple):
    """The Retry-After of a refused request, and the seconds after which one was accepted.

    engine_s    those seconds, at the speed that the engine had before; None: unknown
    is_on_time  whether the request that was sent after the named seconds was accepted
    """

    retry_after_s: float
    actual_s: float
    engine_s: float | None = None
    is_on_time: bool = False

    @property
    def error_s(self) -> float:
        return self.retry_after_s - self.actual_s

    @property
    def is_close(self) -> bool:
        return is_close(self.retry_after_s, self.actual_s)


def is_close(retry_after_s: float, actual_s: float) -> bool:
    """Waits above MAX_RETRY_S count as this much: a client that has waited so long is then told the rest."""
    actual_s = min(actual_s, MAX_RETRY_S)
    return abs(retry_after_s - actual_s) <= max(MAX_ERROR_S, MAX_ERROR_RATIO * actual_s)


@contextmanager
def load(server: Server, reason: Reason, accepted_at: list[float]) -> Iterator[None]:
    """Keep the server full until the block ends; add when requests were sent that were accepted.

    Whether one was is known when it is answered: the answers that run at the end are waited for.
    """
    over = threading.Event()

    def keep_asking(seed: int) -> None:
        draws = random.Random(seed)
        while not over.is_set():
            start, is_accepted = time.monotonic(), False
            with suppress(OSError, http.client.HTTPException):  # the server has ended
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
    headers = JSON_TYPE | {"Content-Length": str(len(probe.body))}
    with suppress(OSError):  # the server refuses a large body before it is whole
        connection.request("POST", probe.path, paced(probe.body, probe.bytes_per_s), headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    return float(response.getheader("Retry-After") or 0) if response.status in REFUSING else None


def paced(body: bytes, bytes_per_s: float) -> Iterator[bytes]:
    """The body in pieces, each after the time that it takes at this rate."""
    for start in range(0, len(body), CHUNK_BYTES):
        chunk = body[start : start + CHUNK_BYTES]
        time.sleep(len(chunk) / bytes_per_s)
        yield chunk


def poll_for(seconds: float, server: Server, make_probe: MakePost) -> list[Poll]:
    """Ask for so long; a refusal counts from its response, an accepted request from when it was sent."""
    polls: list[Poll] = []
    draws = random.Random(-1)

    def ask_once() -> None:
        probe, start = make_probe(server, draws), time.monotonic()
        retry_after_s = ask(server, probe)
        polls.append(Poll(start if retry_after_s is None else time.monotonic(), retry_after_s))

    with ThreadPoolExecutor(MAX_PROBES) as threads:
        for _ in range(round(seconds / POLL_S)):
            threads.submit(ask_once)
            time.sleep(POLL_S)
    return sorted(polls)


def refused_attempts(
    polls: Sequence[Poll], accepted_at: Sequence[float], clock: WorkClock
) -> list[RefusedAttempt]:
    """Each refusal lasted until the next request of any client was accepted. polls: in the order of time"""
    times = sorted([*accepted_at, *(poll.at for poll in polls if poll.retry_after_s is None)])
    attempts = []
    for at, retry_after_s in polls:
        index = bisect_left(times, at)
        if retry_after_s is None or index == len(times):
            continue
        end = times[index]
        next_poll = polls[min(bisect_left(polls, (at + retry_after_s,)), len(polls) - 1)]
        engine_s = clock.seconds_at_speed_before(at, end)
        attempts.append(RefusedAttempt(retry_after_s, end - at, engine_s, next_poll.retry_after_s is None))
    return attempts


def measure(reason: Reason, seconds: float) -> dict[str, list[RefusedAttempt]]:
    """The refusals in each dialect."""
    accepted_at: list[float] = []
    clock = WorkClock()
    with (
        reason.open() as server,
        load(server, reason, accepted_at),
        clock.reading(server, reason.work),
    ):
        time.sleep(max(SETTLE_S, RECENT_S))
        polls = {
            dialect: poll_for(max(seconds, reason.min_seconds), server, make_probe)
            for dialect, make_probe in reason.probes.items()
        }
    return {dialect: refused_attempts(each, accepted_at, clock) for dialect, each in polls.items()}


def judge(name: str, refusals: Sequence[RefusedAttempt]) -> JudgedFigure:
    target = f"{MIN_SHARE:.0%} within {MAX_ERROR_RATIO:.0%} or {MAX_ERROR_S:g} s"
    if len(refusals) < 2:
        return JudgedFigure(name, f"{len(refusals)} refusals", target, None)
    errors = [refusal.error_s for refusal in refusals]
    sizes = [abs(error) for error in errors]
    share = mean(refusal.is_close for refusal in refusals)
    at_engine_speed = [
        is_close(refusal.retry_after_s, refusal.engine_s)
        for refusal in refusals
        if refusal.engine_s is not None
    ]
    value = (
        f"{len(refusals)} refusals: Retry-After {median(each.retry_after_s for each in refusals):.0f} s, "
        f"actually {median(each.actual_s for each in refusals):.1f} s (medians); "
        f"error {median(sizes):.1f} s, p90 {quantiles(sizes, n=10)[-1]:.1f} s, mean {mean(errors):+.1f} s; "
        f"{share:.0%} within"
        + (f", {mean(at_engine_speed):.0%} at the engine's speed" if at_engine_speed else "")
        + f"; {mean(each.is_on_time for each in refusals):.0%} accepted after these seconds"
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
        for dialect, refusals in measure(reason, options.seconds).items():
            figures.append(judge(f"{name}, {dialect}", refusals))
            print(f"{figures[-1].name}: {figures[-1].value}", file=sys.stderr, flush=True)
    print_table("Retry-After", figures)
    return exit_code(figures)


if __name__ == "__main__":
    sys.exit(main())
