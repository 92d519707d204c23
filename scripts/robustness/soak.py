"""Sends mixed traffic to a running server for some minutes, and measures how its memory grows.

    python -m scripts.robustness.soak http://127.0.0.1:8000 --pid PID --minutes 15

Chats, completions, embeddings, tools, constraints, several choices and clients that hang up, streamed and
whole, at random. Prints a line every 30 s, and at the end the growth in MB an hour once most of the time has
passed.
"""

import argparse
import http.client
import json
import random
import threading
import time
from collections import Counter
from statistics import linear_regression
from typing import Any
from urllib.parse import urlsplit

from inference.process.memory.rss import resident_memory

INTERVAL_S = 30.0
WARM_UP = 1 / 3  # share of the time after which growth counts: ten of thirty minutes
TIMEOUT_S = 120.0
WORDS = ("river", "stone", "seven", "quick", "amber", "cloud", "listen", "paper", "north", "engine")
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"enum": list(WORDS)}},
    "required": ["a"],
}
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": SCHEMA}}


def random_text(draws: random.Random, num_words: int) -> str:
    return " ".join(draws.choice(WORDS) for _ in range(num_words))


def random_request(draws: random.Random) -> tuple[str, dict[str, Any]]:
    """A path and a body."""
    text = random_text(draws, draws.choice((3, 20, 200)))
    messages = [{"role": "user", "content": text}]
    common: dict[str, Any] = {
        "stream": draws.random() < 0.5,
        "max_tokens": draws.choice((1, 8, 40)),
        "temperature": draws.choice((0, 0.8)),
    }
    return draws.choice(
        (
            ("/v1/completions", {"prompt": text, **common}),
            ("/v1/completions", {"prompt": [text, text[::-1]], "logprobs": 3, **common}),
            ("/v1/chat/completions", {"messages": messages, **common}),
            ("/v1/chat/completions", {"messages": messages, "n": 2, **common}),
            ("/v1/chat/completions", {"messages": messages, "tools": [TOOL], **common}),
            (
                "/v1/chat/completions",
                {
                    "messages": messages,
                    "response_format": {"type": "json_object", "schema": SCHEMA},
                    **common,
                },
            ),
            ("/v1/responses", {"input": text, "max_output_tokens": 8, "stream": common["stream"]}),
            ("/v1/embeddings", {"input": [text] * draws.choice((1, 4))}),
            ("/generate", {"inputs": text, "parameters": {"max_new_tokens": 8}}),
        )
    )


class Traffic:
    """Clients that send requests until `stop` is set. statuses: responses with each status; 0: hung up."""

    def __init__(self, url: str, num_clients: int) -> None:
        self.address = urlsplit(url)
        self.statuses: Counter[int] = Counter()
        self.stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._send, args=(seed,)) for seed in range(num_clients)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join()

    def _send(self, seed: int) -> None:
        draws = random.Random(seed)
        while not self.stop.is_set():
            status = self._request(*random_request(draws), hangs_up=draws.random() < 0.1)
            with self._lock:
                self.statuses[status] += 1

    def _request(self, path: str, body: dict[str, Any], hangs_up: bool) -> int:
        connection = http.client.HTTPConnection(
            self.address.hostname or "", self.address.port, timeout=TIMEOUT_S
        )
        try:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            if hangs_up:
                time.sleep(0.02)
                return 0
            response = connection.getresponse()
            response.read()
            return response.status
        finally:
            connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("--pid", type=int, required=True, help="the server's process")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--clients", type=int, default=8)
    options = parser.parse_args()
    traffic = Traffic(options.url, options.clients)
    start_s = time.monotonic()
    points: list[tuple[float, float]] = []
    traffic.start()
    try:
        while (elapsed_s := time.monotonic() - start_s) < options.minutes * 60:
            memory_mb = resident_memory(options.pid).total / 1e6
            points.append((elapsed_s / 3600, memory_mb))
            print(
                f"{elapsed_s:6.0f} s  {memory_mb:8.1f} MB  {sum(traffic.statuses.values()):7} requests",
                flush=True,
            )
            time.sleep(min(INTERVAL_S, options.minutes * 60 - elapsed_s + 0.01))
    finally:
        traffic.join()
    late_points = [point for point in points if point[0] >= WARM_UP * options.minutes / 60]
    slope = linear_regression(*zip(*late_points, strict=True)).slope if len(late_points) > 1 else float("nan")
    print(f"statuses: {dict(sorted(traffic.statuses.items()))}")
    print(f"growth in the last {len(late_points) * INTERVAL_S / 60:.0f} minutes: {slope:+.1f} MB an hour")


if __name__ == "__main__":
    main()
