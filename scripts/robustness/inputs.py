"""Sends hostile inputs one after the other, each by four clients at once, beside bystanders.

    python -m scripts.robustness.inputs
    python -m scripts.robustness.inputs --only schema

Starts a server. Prints a line for each input, and at the end the figures of all.
"""

import argparse
import re
import sys
import threading
import time
from collections import Counter

from scripts.robustness.bystanders import Waits, bystanders, figures_of, idle_server
from scripts.robustness.figures import JudgedFigure, exit_code, print_table
from scripts.robustness.hostile_inputs import INPUTS, HostileInput
from scripts.robustness.ordinary import warm_up
from scripts.robustness.server import SMALL_KV_CACHE, Server, serving

ALONE_S = 5.0
NUM_CLIENTS = 4
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


def send(server: Server, hostile_input: HostileInput, statuses: list[int]) -> None:
    if hostile_input.path:
        statuses.append(server.post(hostile_input.path, hostile_input.body).status)
    else:
        statuses.extend(exchange(server, hostile_input.body))


def exchange(server: Server, data: bytes) -> set[int]:
    """The statuses of all responses on one connection."""
    received = b""
    with server.open_socket() as connection:
        connection.sendall(data)
        while data_received := connection.recv(65536):
            received += data_received
    return set(map(int, STATUS.findall(received))) or {0}


def send_from_all(server: Server, hostile_input: HostileInput) -> list[int]:
    statuses: list[int] = []
    threads = [
        threading.Thread(target=send, args=(server, hostile_input, statuses)) for _ in range(NUM_CLIENTS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses


def measure(server: Server, idle_port: int, name: str) -> tuple[bool, Waits]:
    """Whether all clients got one of the statuses of the input, and what the bystanders waited."""
    hostile_input, start = INPUTS[name], time.perf_counter()
    with bystanders(server, idle_port) as waits:
        statuses = send_from_all(server, hostile_input)
        seconds = time.perf_counter() - start
        time.sleep(0.3)
    is_expected = bool(statuses) and set(statuses) <= hostile_input.statuses and server.is_alive
    health_ms, noise_ms = max(waits.health_s) * 1e3, max(waits.noise_s) * 1e3
    print(
        f"{name:32} {dict(Counter(statuses))!s:18} {seconds:5.1f} s  /health/live {health_ms:4.0f} ms"
        f"  idle server {noise_ms:4.0f} ms  gap {waits.longest_gap_s * 1e3:4.0f} ms"
        f"  {'' if is_expected else 'UNEXPECTED STATUS'}",
        flush=True,
    )
    return is_expected, waits


def add(total: Waits, waits: Waits) -> None:
    total.health_s += waits.health_s
    total.noise_s += waits.noise_s
    total.gaps_s += waits.gaps_s
    total.texts |= waits.texts
    total.memory_mb += waits.memory_mb


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="inputs whose name begins so")
    options = parser.parse_args()
    names, total, num_expected = [name for name in INPUTS if name.startswith(options.only)], Waits(), 0
    with serving(SMALL_KV_CACHE) as server, idle_server() as idle_port:
        warm_up(server)
        with bystanders(server, idle_port) as alone:
            time.sleep(ALONE_S)
        before_mb = server.usage().memory_mb
        for name in names:
            is_expected, waits = measure(server, idle_port, name)
            num_expected += is_expected
            add(total, waits)
        server.wait_until_idle()
        figures = [
            JudgedFigure(
                "inputs answered as expected",
                f"{num_expected} of {len(names)}",
                "all",
                num_expected == len(names),
            ),
            *figures_of(total, alone, before_mb, server.usage().memory_mb),
        ]
    print_table("Hostile inputs", figures)
    return exit_code(figures)


if __name__ == "__main__":
    sys.exit(main())
