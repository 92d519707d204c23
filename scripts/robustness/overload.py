"""Measures an overloaded server: whether Retry-After tells the truth, and what a refusal costs.

    python3 main.py --max-concurrent-requests 4
    python -m scripts.robustness.overload http://127.0.0.1:8000 --clients 4

Start the server with a limit that CLIENTS requests reach. Each round sends a request until it is accepted,
and prints what some of its refusals named and what was true.
"""

import argparse
import http.client
import json
import threading
import time
from dataclasses import dataclass, field
from statistics import quantiles
from urllib.parse import urlsplit

TIMEOUT_S = 120.0
POLL_S = 0.02
NUM_REPORTED = 4  # refusals of a round whose Retry-After is compared


@dataclass(slots=True)
class Refusals:
    """The refusals of a round: when each was answered, and the seconds that it named; and what each took."""

    retry_afters: list[tuple[float, float]] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Requester:
    url: str
    prompt: str
    num_tokens: int

    def request(self, num_tokens: int) -> tuple[int, float]:
        """The status of a request for so many tokens, and its Retry-After."""
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port or 80, timeout=TIMEOUT_S)
        body = {"prompt": self.prompt, "max_tokens": num_tokens, "ignore_eos": True}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        connection.close()
        return response.status, float(response.getheader("Retry-After") or 0)

    def load(self) -> None:
        self.request(self.num_tokens)


def refuse_until_accepted(client: Requester) -> tuple[Refusals, float]:
    """Send a small request until it is accepted; returns its refusals, and when it was accepted."""
    refusals = Refusals()
    while True:
        start = time.monotonic()
        status, retry_after = client.request(1)
        if status != 429:
            return refusals, start
        refusals.retry_afters.append((start, retry_after))
        refusals.latencies.append(time.monotonic() - start)
        time.sleep(POLL_S)


def run_round(client: Requester, num_clients: int) -> list[float]:
    """Overload the server once, and print the refusals; returns what they took."""
    threads = [threading.Thread(target=client.load) for _ in range(num_clients)]
    for thread in threads:
        thread.start()
        time.sleep(POLL_S)
    time.sleep(1.0)
    refusals, accepted = refuse_until_accepted(client)
    for thread in threads:
        thread.join()
    if not refusals.retry_afters:
        print("no request was refused: use more --clients, or a lower limit")
    for index in range(0, len(refusals.retry_afters), max(1, len(refusals.retry_afters) // NUM_REPORTED)):
        at, retry_after = refusals.retry_afters[index]
        print(f"Retry-After {retry_after:5.1f} s   true {accepted - at:5.1f} s", flush=True)
    return refusals.latencies


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=500, help="tokens of each answer")
    parser.add_argument("--words", type=int, default=20, help="words of each prompt")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    client = Requester(options.url, "word " * options.words, options.tokens)
    latencies = [seconds for _ in range(options.rounds) for seconds in run_round(client, options.clients)]
    if len(latencies) > 1:
        p50, p99 = (quantiles(latencies, n=100)[percent - 1] * 1e3 for percent in (50, 99))
        print(f"{len(latencies)} refusals: p50 {p50:.1f} ms, p99 {p99:.1f} ms")


if __name__ == "__main__":
    main()
