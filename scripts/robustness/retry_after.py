"""Compares the Retry-After of an overloaded server with what was true, by reason and dialect.

    python -m scripts.robustness.retry_after --seconds 10

Starts a server for each reason, and clients that keep it full. One more client asks all the time: a refusal
lasted until the next request, of any client, was accepted. The seconds are for each row.
"""

import argparse
import json
import random
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median, quantiles
from typing import NamedTuple

from scripts.robustness.figures import JudgedFigure, exit_code, print_table
from scripts.robustness.ordinary import MESSAGES
from scripts.robustness.server import JSON_TYPE, Server, serving

POLL_S = 0.1
MAX_PROBES = 32  # at a time: an accepted one waits for its answer
SETTLE_S = 2.0  # until the server is full
TURNOVER_S = 0.02  # between two requests of a client of the load
RETURN_S = 1.0, 3.0  # until a refused one returns
MAX_ERROR_S, MAX_ERROR_RATIO = 1.0, 0.25
MIN_SHARE = 0.9  # of the refusals, within the larger of both
NUM_ROWS = 4
PROMPT_TOKENS = 300
COMPLETE = "/v1/completions"


class Post(NamedTuple):
    path: str
    body: bytes


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


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason to refuse.

    flags    of a server that refuses soon
    clients  of the load; make_load makes each of their requests
    probes   by dialect: the request of the client that is refused
    """

    flags: Sequence[str]
    clients: int
    make_load: Callable[[random.Random], Post]
    probes: dict[str, Post]


def post(path: str, **fields: object) -> Post:
    return Post(path, json.dumps(fields).encode())


def many_answers(draws: random.Random) -> Post:
    """Many at a time: a step takes longer."""
    num_tokens = draws.randint(200, 1000)
    return post(COMPLETE, prompt="Once upon a time", n=16, max_tokens=num_tokens, ignore_eos=True)


def long_prompt(draws: random.Random) -> Post:
    """All are as long, so that none gets the place that another waits for."""
    ids = [draws.randint(300, 900) for _ in range(PROMPT_TOKENS)]
    return post(COMPLETE, prompt=ids, max_tokens=draws.randint(800, 1600), ignore_eos=True)


REASONS = {
    "requests at the same time": Reason(
        (f"--max-concurrent-requests={NUM_ROWS}",),
        NUM_ROWS + 2,
        many_answers,
        {
            "OpenAI": post(COMPLETE, prompt="Hi", max_tokens=1),
            "Llama Stack": post(
                "/inference/chat_completion", messages=MESSAGES, sampling_params={"max_tokens": 1}
            ),
            "TGI": post("/generate", inputs="Hi", parameters={"max_new_tokens": 1}),
            "Neodim": post("/generate", prompt="Hi", generated_tokens_count=1, max_total_tokens=20),
        },
    ),
    "prompts that wait": Reason(
        ("--max-sequences=1", "--max-queued-tokens=3000"),
        16,
        long_prompt,
        {"OpenAI": post(COMPLETE, prompt=[300] * PROMPT_TOKENS, max_tokens=1)},
    ),
}


@contextmanager
def load(server: Server, reason: Reason, accepted_at: list[float]) -> Iterator[None]:
    """Keep the server full until the block ends; add when requests were sent that were accepted."""
    over = threading.Event()

    def keep_asking(seed: int) -> None:
        draws = random.Random(seed)
        while not over.is_set():
            start = time.monotonic()
            is_accepted = ask(server, reason.make_load(draws)) is None
            if is_accepted:
                accepted_at.append(start)
            over.wait(TURNOVER_S if is_accepted else draws.uniform(*RETURN_S))

    threads = [threading.Thread(target=keep_asking, args=(seed,)) for seed in range(reason.clients)]
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
    connection = server.connect()
    connection.request("POST", probe.path, probe.body, JSON_TYPE)
    response = connection.getresponse()
    response.read()
    connection.close()
    return float(response.getheader("Retry-After") or 0) if response.status == 429 else None


def probe_for(
    seconds: float, server: Server, probe: Post, accepted_at: list[float]
) -> list[tuple[float, float]]:
    """Ask for so long. Returns when requests were refused, and their Retry-After."""
    refused: list[tuple[float, float]] = []

    def ask_once() -> None:
        start = time.monotonic()
        retry_after_s = ask(server, probe)
        if retry_after_s is None:
            accepted_at.append(start)
        else:
            refused.append((start, retry_after_s))

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
    with serving(*reason.flags) as server, load(server, reason, accepted_at):
        time.sleep(SETTLE_S)
        refused = {
            dialect: probe_for(seconds, server, probe, accepted_at)
            for dialect, probe in reason.probes.items()
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
