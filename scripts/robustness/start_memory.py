"""Starts a server under many limits of its address space: each start ends in a sentence, or serves.

    python -m scripts.robustness.start_memory [--limits 20] [--from 300] [--to 2500]

The limits, in MB, are as far apart in each step, so that memory is refused at every stage of a start. A
start that serves answers requests of every kind, and is ready afterwards. Linux only.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from scripts.loopback import HOST, free_port, wait_until_ready
from scripts.robustness.figures import JudgedFigure, exit_code, print_table
from scripts.robustness.ordinary import ORDINARY
from scripts.robustness.server import Server

READY_TIMEOUT_S = 240.0
NUM_REQUESTS, NUM_CLIENTS = 20, 5
REFUSED, SERVES = "a sentence and exit code 1", "serves"
GOOD_ENDS = (REFUSED, SERVES)
EXPECTED_STATUSES = {200, 429, 503}  # a request may be refused for want of memory, in words


class StartResult(NamedTuple):
    """How a start under a limit ended, and the last line of its log."""

    end: str
    last_line: str


def start_under(limit_mb: int) -> StartResult:
    command = [sys.executable, "main.py", "--model", "models/demo", "--responses-store=off", "--port"]
    port, size = free_port(), limit_mb * 10**6
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [*command, str(port)],
            stdout=output,
            stderr=output,
            preexec_fn=partial(resource.setrlimit, resource.RLIMIT_AS, (size, size)),
        )
        server = Server(port, process)
        try:
            wait_until_ready(f"http://{HOST}:{port}/health/ready", process, READY_TIMEOUT_S)
            end = end_of_service(server) if server.is_alive else ""
        finally:
            if server.is_alive:
                process.terminate()
            code = process.wait(60)
        output.seek(0)
        lines = [line.strip() for line in output if line.strip()] or [""]
    if any(line.startswith("Traceback") for line in lines):
        end = f"a traceback ({end or f'exit code {code}'})"
    return StartResult(end or (REFUSED if code == 1 else f"exit code {code}"), lines[-1])


def end_of_service(server: Server) -> str:
    """How a server that is alive after its start answers requests of every kind."""
    posts = [ORDINARY[index % len(ORDINARY)] for index in range(NUM_REQUESTS)]
    with ThreadPoolExecutor(NUM_CLIENTS) as clients:
        statuses = Counter(clients.map(lambda post: server.post(*post).status, posts))
    is_ready = server.request("GET", "/health/ready").status == 200
    if not is_ready or set(statuses) - EXPECTED_STATUSES or not statuses[200]:
        return f"alive, {'ready' if is_ready else 'not ready'}, statuses {dict(statuses)}"
    return SERVES


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--limits", type=int, default=20)
    parser.add_argument("--from", type=int, default=300, dest="smallest")
    parser.add_argument("--to", type=int, default=2500, dest="largest")
    options = parser.parse_args()
    step = (options.largest - options.smallest) / max(1, options.limits - 1)
    figures = []
    for index in range(options.limits):
        limit_mb = round(options.smallest + index * step)
        end, last_line = start_under(limit_mb)
        print(f"{limit_mb:5} MB: {end}: {last_line[:160]}", flush=True)
        figures.append(JudgedFigure(f"{limit_mb} MB", end, " or ".join(GOOD_ENDS), end in GOOD_ENDS))
    print_table("Starts with little memory", figures)
    return exit_code(figures)


if __name__ == "__main__":
    sys.exit(main())
