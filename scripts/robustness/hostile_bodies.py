"""Measures how long a running server takes to answer /health/live while it gets hostile bodies.

    python -m scripts.robustness.hostile_bodies http://127.0.0.1:8000

Prints a line per kind of body: the statuses, the time until all were answered, and the slowest health check.
"""

import argparse
import http.client
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

NUM_CLIENTS = 8
CHECK_INTERVAL_S = 0.02
TIMEOUT_S = 60.0
BODY_BYTES = 30_000_000


def repeated(before: bytes, item: bytes, after: bytes) -> bytes:
    """A body of about BODY_BYTES that repeats `item`."""
    return before + item * ((BODY_BYTES - len(before) - len(after)) // len(item)) + after


# The path and the body of each kind.
BODIES = {
    "no hostile body": ("/v1/models", b""),
    "empty lists": ("/v1/completions", repeated(b'{"prompt": [', b"[],", b"[]]}")),
    "lists below the limit": ("/v1/completions", b'{"prompt": [' + b"[]," * 65_000 + b"[]]}"),
    "token ids": ("/v1/completions", b'{"prompt": [' + b"5," * 1_000_000 + b"5]}"),
    "ids to detokenize": ("/detokenize", b'{"tokens": [' + b"300," * 99_999 + b"300]}"),
    "too many ids": ("/detokenize", repeated(b'{"tokens": [', b"1,", b"1]}")),
    "keys": ("/v1/completions", b"{" + b",".join(b'"%d":1' % n for n in range(131_000)) + b"}"),
    "strings": ("/v1/embeddings", b'{"input": [' + b'"ab",' * 260_000 + b'""]}'),
    "messages": (
        "/v1/chat/completions",
        b'{"messages": [' + b'{"role":"user","content":"a"},' * 60_000 + b"{}]}",
    ),
    "a long text": ("/v1/completions", repeated(b'{"prompt": "', b"word ", b'"}')),
    "escapes": ("/v1/completions", repeated(b'{"prompt": "', b"\\n", b'"}')),
    "a long message": (
        "/v1/chat/completions",
        repeated(b'{"messages": [{"role": "user", "content": "', b"word ", b'"}]}'),
    ),
    "a long input": ("/v1/embeddings", repeated(b'{"input": "', b"word ", b'"}')),
    "no JSON": ("/v1/completions", repeated(b"", b'"', b"")),
}


@dataclass(slots=True)
class HealthChecks:
    """The seconds of each health check so far."""

    seconds: list[float] = field(default_factory=list)


def connect(url: str) -> http.client.HTTPConnection:
    address = urlsplit(url)
    return http.client.HTTPConnection(address.hostname or "", address.port or 80, timeout=TIMEOUT_S)


@contextmanager
def checking(url: str) -> Iterator[HealthChecks]:
    """Checks /health/live in a thread of its own, until the block ends."""
    checks, over = HealthChecks(), threading.Event()

    def check() -> None:
        connection = connect(url)
        while not over.wait(CHECK_INTERVAL_S):
            start = time.perf_counter()
            connection.request("GET", "/health/live")
            connection.getresponse().read()
            checks.seconds.append(time.perf_counter() - start)

    thread = threading.Thread(target=check)
    thread.start()
    try:
        yield checks
    finally:
        over.set()
        thread.join()


def send(url: str, path: str, body: bytes, statuses: Counter[int]) -> None:
    connection = connect(url)
    connection.request("POST" if body else "GET", path, body, {"Content-Type": "application/json"})
    statuses[connection.getresponse().status] += 1
    connection.close()


def measure(url: str, name: str, num_clients: int = NUM_CLIENTS) -> float:
    """Send the body of this name from some clients at once; returns the slowest health check."""
    path, body = BODIES[name]
    statuses: Counter[int] = Counter()
    start = time.perf_counter()
    with checking(url) as checks:
        clients = [
            threading.Thread(target=send, args=(url, path, body, statuses)) for _ in range(num_clients)
        ]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        time.sleep(2 * CHECK_INTERVAL_S)
    slowest = max(checks.seconds)
    print(
        f"{name:20} {dict(statuses)!s:22} {time.perf_counter() - start:6.2f} s"
        f"   slowest of {len(checks.seconds):4} checks {slowest * 1e3:6.1f} ms",
        flush=True,
    )
    return slowest


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("names", nargs="*", choices=[[], *BODIES], help="kinds of bodies; default: all")
    options = parser.parse_args()
    for name in options.names or BODIES:
        measure(options.url, name)


if __name__ == "__main__":
    main()
