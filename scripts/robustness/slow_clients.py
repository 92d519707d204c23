"""Clients that send nothing, or a byte now and then: whether the server drops them, and serves others.

    python -m scripts.robustness.slow_clients --clients 2000

Starts a server. A connection must be closed once the time for its headers (5 s) or its body (10 s) is over.
"""

import argparse
import resource
import select
import socket
import sys
import time

from scripts.robustness.bystanders import bystanders, figures_of, idle_server
from scripts.robustness.figures import JudgedFigure, exit_code, print_table
from scripts.robustness.ordinary import warm_up
from scripts.robustness.server import SMALL_KV_CACHE, Server, serving

ALONE_S = 5.0
BYTE_INTERVAL_S = 1.0
MAX_OPEN_S = 25.0  # 5 s for headers, 10 s without a byte of the body, 1 s of lingering, and a busy machine
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"
# What each kind of client has sent before it falls silent or slow, and what it sends now and then.
KINDS = {
    "silent": (b"", b""),
    "slow headers": (HEAD, b"x"),
    "silent body": (HEAD + b'\r\n{"prompt": "', b""),
}


def connect_all(server: Server, num_clients: int) -> list[tuple[socket.socket, bytes]]:
    """The connections, each with the byte that it sends now and then."""
    kinds, clients = list(KINDS.values()), []
    for index in range(num_clients):
        first_bytes, slow_byte = kinds[index % len(kinds)]
        connection = server.open_socket()
        if first_bytes:
            connection.sendall(first_bytes)
        connection.setblocking(False)
        clients.append((connection, slow_byte))
    return clients


def count_closed(clients: list[tuple[socket.socket, bytes]]) -> int:
    """How many of the connections the server closes within MAX_OPEN_S."""
    still_open = {connection.fileno(): (connection, slow_byte) for connection, slow_byte in clients}
    poll = select.poll()
    for number in still_open:
        poll.register(number, select.POLLIN)
    end, next_byte_s = time.monotonic() + MAX_OPEN_S, 0.0
    while still_open and time.monotonic() < end:
        for number, _ in poll.poll(100):
            if has_closed(still_open[number][0]):
                poll.unregister(number)
                del still_open[number]
        if time.monotonic() > next_byte_s:
            next_byte_s = time.monotonic() + BYTE_INTERVAL_S
            for connection, slow_byte in still_open.values():
                send_slowly(connection, slow_byte)
    return len(clients) - len(still_open)


def has_closed(connection: socket.socket) -> bool:
    """Read what the server has sent; whether it has closed the connection."""
    try:
        while connection.recv(65536):
            pass
        return True
    except BlockingIOError:
        return False
    except OSError:
        return True


def send_slowly(connection: socket.socket, slow_byte: bytes) -> None:
    try:
        connection.send(slow_byte)
    except OSError:  # closed: the next poll reports it
        return


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=2000)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * options.clients + 512, 2 * options.clients + 512))
    with serving(SMALL_KV_CACHE) as server, idle_server() as idle_port:
        warm_up(server)
        with bystanders(server, idle_port) as alone:
            time.sleep(ALONE_S)
        before = server.usage()
        with bystanders(server, idle_port) as waits:
            clients = connect_all(server, options.clients)
            num_closed = count_closed(clients)
        for connection, _ in clients:
            connection.close()
        server.wait_until_idle()
        after = server.usage()
        figures = [
            JudgedFigure(
                f"connections closed within {MAX_OPEN_S:g} s",
                f"{num_closed} of {len(clients)}",
                "all",
                num_closed == len(clients),
            ),
            JudgedFigure(
                "descriptors",
                f"{before.descriptors}, then {after.descriptors}",
                "the same",
                after.descriptors <= before.descriptors,
            ),
            *figures_of(waits, alone, before.memory_mb, after.memory_mb),
        ]
    print_table("Slow and silent clients", figures)
    return exit_code(figures)


if __name__ == "__main__":
    sys.exit(main())
