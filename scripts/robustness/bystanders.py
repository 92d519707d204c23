"""Clients that do nothing wrong beside a hostile one: health checks, a stream, and the memory.

A second server, which does nothing else, is checked alike: how long it takes is the noise of the machine.
"""

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from scripts.loopback import HOST, free_port
from scripts.robustness.figures import JudgedFigure
from scripts.robustness.server import JSON_TYPE, Server

CHECK_INTERVAL_S = 0.02
MEMORY_INTERVAL_S = 0.2
MAX_HEALTH_S = 0.1
MAX_GAP_RATIO = 3.0
MAX_MEMORY_RATIO = 1.1
STREAM = {"prompt": "Once upon a time", "max_tokens": 200, "temperature": 0, "stream": True}
STREAM_BODY = json.dumps(STREAM | {"ignore_eos": True})
IDLE_SERVER = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Answerer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *args): ...
HTTPServer(("127.0.0.1", int(sys.argv[1])), Answerer).serve_forever()
"""


@dataclass(slots=True)
class Waits:
    """Seconds that bystanders waited, the texts of their streams, and megabytes of the server.

    health_s  for /health/live; noise_s: for the idle server
    gaps_s    between two tokens of a stream
    """

    health_s: list[float] = field(default_factory=list)
    noise_s: list[float] = field(default_factory=list)
    gaps_s: list[float] = field(default_factory=list)
    texts: set[bytes] = field(default_factory=set)
    memory_mb: list[float] = field(default_factory=list)

    @property
    def longest_gap_s(self) -> float:
        return max(self.gaps_s, default=0.0)

    @property
    def is_noisy(self) -> bool:
        return max(self.noise_s, default=0.0) > MAX_HEALTH_S / 2


@contextmanager
def idle_server() -> Iterator[int]:
    """A server that answers at once; yields its port."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", IDLE_SERVER, str(port)])
    time.sleep(1.0)
    try:
        yield port
    finally:
        process.terminate()
        process.wait()


@contextmanager
def bystanders(server: Server, idle_port: int) -> Iterator[Waits]:
    """Run them until the block ends."""
    waits, over = Waits(), threading.Event()
    loops: list[Callable[[], None]] = [
        lambda: check_health(server.port, "/health/live", waits.health_s, over),
        lambda: check_health(idle_port, "/", waits.noise_s, over),
        lambda: read_streams(server, waits, over),
        lambda: record_memory(server, waits.memory_mb, over),
    ]
    threads = [threading.Thread(target=loop) for loop in loops]
    for thread in threads:
        thread.start()
    try:
        yield waits
    finally:
        over.set()
        for thread in threads:
            thread.join()


def check_health(port: int, path: str, seconds: list[float], over: threading.Event) -> None:
    connection = http.client.HTTPConnection(HOST, port, timeout=60)
    while not over.wait(CHECK_INTERVAL_S):
        start = time.perf_counter()
        connection.request("GET", path)
        connection.getresponse().read()
        seconds.append(time.perf_counter() - start)


def read_streams(server: Server, waits: Waits, over: threading.Event) -> None:
    """Repeat one stream, and record its gaps and texts."""
    while not over.is_set():
        connection = server.connect()
        connection.request("POST", "/v1/completions", STREAM_BODY, JSON_TYPE)
        response = connection.getresponse()
        if response.status != 200:  # refused: the server is full
            time.sleep(CHECK_INTERVAL_S)
            continue
        times, texts = [], []
        for line in response:
            if line.startswith(b"data: {"):
                times.append(time.perf_counter())
                texts.append(json.loads(line[6:])["choices"][0]["text"].encode())
        waits.gaps_s += [later - earlier for earlier, later in pairwise(times)]
        waits.texts.add(b"".join(texts))
        connection.close()


def record_memory(server: Server, memory_mb: list[float], over: threading.Event) -> None:
    while not over.wait(MEMORY_INTERVAL_S):
        memory_mb.append(server.usage().memory_mb)


def figures_of(
    waits: Waits, alone: Waits, memory_before_mb: float, memory_after_mb: float
) -> list[JudgedFigure]:
    """The figures of all measurements: alone: bystanders beside nothing hostile."""
    slowest, noise = max(waits.health_s) * 1e3, max(waits.noise_s) * 1e3
    gap, gap_alone = waits.longest_gap_s * 1e3, alone.longest_gap_s * 1e3
    health_met = slowest <= MAX_HEALTH_S * 1e3
    return [
        JudgedFigure(
            "slowest /health/live",
            f"{slowest:.0f} ms; the idle server's {noise:.0f} ms",
            f"{MAX_HEALTH_S * 1e3:.0f} ms",
            health_met or (None if waits.is_noisy else False),
        ),
        JudgedFigure(
            "longest gap of a stream",
            f"{gap:.0f} ms; alone {gap_alone:.0f} ms",
            f"{MAX_GAP_RATIO:g} x alone",
            gap <= MAX_GAP_RATIO * gap_alone or (None if waits.is_noisy else False),
        ),
        JudgedFigure(
            "texts of the stream",
            f"{len(waits.texts | alone.texts)}",
            "1",
            len(waits.texts | alone.texts) == 1,
        ),
        JudgedFigure(
            "memory",
            f"{memory_before_mb:.0f} MB, peak {max(waits.memory_mb):.0f} MB, then {memory_after_mb:.0f} MB",
            "back within 10 %",
            memory_after_mb <= MAX_MEMORY_RATIO * memory_before_mb,
        ),
    ]
