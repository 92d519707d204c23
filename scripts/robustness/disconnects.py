"""Clients that hang up at random moments, and whether the server keeps anything of them.

    python -m scripts.robustness.disconnects --seconds 60

Starts a server. Each client sends a part of a request or all of it, reads for a moment or not, and closes or
resets its connection. Ends after 10,000 disconnects or the time.
"""

import argparse
import json
import random
import socket
import struct
import sys
import threading
import time

from scripts.robustness.bystanders import MAX_MEMORY_RATIO, STREAM
from scripts.robustness.figures import JudgedFigure, exit_code, print_table
from scripts.robustness.ordinary import ORDINARY, warm_up
from scripts.robustness.server import SMALL_KV_CACHE, Server, Usage, serving

NUM_DISCONNECTS = 10_000
NUM_CLIENTS = 16
MAX_WAIT_S = 0.05
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with RST


def request_bytes(draws: random.Random) -> bytes:
    """A whole request or its beginning."""
    path, fields = draws.choice(ORDINARY)
    body = json.dumps(fields).encode()
    data = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    return data if draws.random() < 0.7 else data[: draws.randrange(len(data))]


class Clients:
    """Clients that hang up until there were NUM_DISCONNECTS or the time is over."""

    def __init__(self, server: Server, seconds: float) -> None:
        self.num_disconnects = 0
        self._server = server
        self._end = time.monotonic() + seconds
        self._lock = threading.Lock()

    def run(self) -> None:
        threads = [threading.Thread(target=self._hang_up, args=(seed,)) for seed in range(NUM_CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _hang_up(self, seed: int) -> None:
        draws = random.Random(seed)
        while time.monotonic() < self._end:
            with self._lock:
                if self.num_disconnects >= NUM_DISCONNECTS:
                    return
                self.num_disconnects += 1
            connection = self._server.open_socket()
            connection.sendall(request_bytes(draws))
            time.sleep(draws.uniform(0, MAX_WAIT_S))
            if draws.random() < 0.5:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            connection.close()


def figures_of(server: Server, num_disconnects: int, before: Usage, after: Usage) -> list[JudgedFigure]:
    num_tokens = server.metric("hearth_kv_used")
    growth = after.memory_mb / before.memory_mb
    return [
        JudgedFigure(
            "disconnects", f"{num_disconnects}", f"{NUM_DISCONNECTS}", num_disconnects == NUM_DISCONNECTS
        ),
        JudgedFigure("tokens of the KV cache still in use", f"{num_tokens:g}", "0", num_tokens == 0),
        JudgedFigure(
            "threads", f"{before.threads}, then {after.threads}", "the same", after.threads <= before.threads
        ),
        JudgedFigure(
            "descriptors",
            f"{before.descriptors}, then {after.descriptors}",
            "the same",
            after.descriptors <= before.descriptors,
        ),
        JudgedFigure(
            "memory",
            f"{before.memory_mb:.0f} MB, then {after.memory_mb:.0f} MB",
            "within 10 %",
            growth <= MAX_MEMORY_RATIO,
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    with serving(SMALL_KV_CACHE) as server:
        warm_up(server)
        Clients(server, 2.0).run()  # starts all threads that the server may have
        text = server.post("/v1/completions", STREAM).body
        server.wait_until_idle()
        before, clients = server.usage(), Clients(server, options.seconds)
        clients.run()
        server.wait_until_idle()
        figures = figures_of(server, clients.num_disconnects, before, server.usage())
        is_same = server.post("/v1/completions", STREAM).body.count(b"data:") == text.count(b"data:")
        figures.append(
            JudgedFigure("an answer afterwards", "as before" if is_same else "differs", "as before", is_same)
        )
    print_table("Random disconnects", figures)
    return exit_code(figures)


if __name__ == "__main__":
    sys.exit(main())
