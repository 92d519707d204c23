"""Requests generated from the server's OpenAPI document, most of them invalid: none is a server error.

    python -m scripts.robustness.fuzz --seconds 600
    python -m scripts.robustness.fuzz --seconds 600 --phases fuzzing --seed 1     # a further batch

Starts a server, and schemathesis beside it for at most the seconds. Its phase "coverage" changes one thing at
a time in each operation, hundreds of cases a second; "fuzzing" draws whole requests, a few a second. The
server's metrics count the responses. 501 is documented for what a model cannot do.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from scripts.loopback import HOST
from scripts.robustness.figures import JudgedFigure, exit_code, print_table
from scripts.robustness.ordinary import warm_up
from scripts.robustness.server import SMALL_KV_CACHE, Server, serving

NUM_CASES = 50_000
NUM_WORKERS = 2
NOT_IMPLEMENTED = "501"
MAX_EXAMPLES = 100_000  # of an operation in the phase "fuzzing": the time ends first
SMALL_BODIES = "--max-body-mb=1"  # the longest texts of the phase "coverage" are as long as a body may be
RESPONSES = re.compile(r'^hearth_requests_total\{.*route="([^"]*)".*status="(\d+)"\} (\S+)', re.MULTILINE)


def count_responses(server: Server) -> Counter[tuple[str, str]]:
    """Responses by route and status, since the start of the server."""
    text = server.request("GET", "/metrics").body.decode()
    return Counter({(route, status): int(float(count)) for route, status, count in RESPONSES.findall(text)})


def run_schemathesis(server: Server, seconds: float, phases: str, seed: int) -> None:
    """Run it for at most the seconds: it does not end its phase "coverage" by itself before all cases."""
    command = [
        Path(sys.executable).with_name("schemathesis"),
        "run",
        f"http://{HOST}:{server.port}/openapi.json",
        f"--phases={phases}",
        f"--seed={seed}",
        f"--workers={NUM_WORKERS}",
        f"--max-examples={MAX_EXAMPLES}",
        "--checks=not_a_server_error",
        "--continue-on-failure",
        "--no-color",
    ]
    with tempfile.TemporaryDirectory() as folder:  # it writes what it has seen into its working directory
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=folder)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--phases", default="coverage,fuzzing")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with serving(SMALL_KV_CACHE, SMALL_BODIES) as server:
        warm_up(server)
        before, start = count_responses(server), time.monotonic()
        run_schemathesis(server, options.seconds, options.phases, options.seed)
        seconds = time.monotonic() - start
        is_ready = server.is_alive and server.request("GET", "/health/ready").status == 200
        responses = count_responses(server) - before
    statuses: Counter[str] = Counter()
    for (_, status), count in responses.items():
        statuses[status] += count
    errors = {
        key: count for key, count in responses.items() if key[1][0] == "5" and key[1] != NOT_IMPLEMENTED
    }
    figures = [
        JudgedFigure(
            "cases",
            f"{statuses.total()} in {seconds:.0f} s: {dict(sorted(statuses.items()))}",
            f"{NUM_CASES}",
            statuses.total() >= NUM_CASES or None,
        ),
        JudgedFigure("server errors but 501", f"{errors or 0}", "0", not errors),
        JudgedFigure("/health/ready at the end", "200" if is_ready else "no", "200", is_ready),
    ]
    print_table("Cases of the OpenAPI document", figures)
    return exit_code(figures)


if __name__ == "__main__":
    sys.exit(main())
