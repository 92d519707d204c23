"""Requests generated from the server's OpenAPI document, most of them invalid: none is a server error.

    python -m scripts.robustness.fuzz --seconds 60
    python -m scripts.robustness.fuzz --seconds 60 --seed 1     # a further batch: other cases

Starts a server. schemathesis generates the cases: for each operation in turn, half of them with invalid data,
until the time is over. 501 is documented for what a model cannot do.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from requests import RequestException
from schemathesis import Case, GenerationMode
from schemathesis.schemas import APIOperation

from scripts.loopback import HOST
from scripts.robustness.figures import JudgedFigure, exit_code, print_table
from scripts.robustness.ordinary import warm_up
from scripts.robustness.server import SMALL_KV_CACHE, Server, serving

CASES_PER_TURN = 25  # of one operation and one mode
TIMEOUT_S = 30.0
NOT_IMPLEMENTED = 501
MODES = (GenerationMode.NEGATIVE, GenerationMode.POSITIVE)


def operations(server: Server) -> list[APIOperation]:
    document = schemathesis.openapi.from_url(f"http://{HOST}:{server.port}/openapi.json")
    return [result.ok() for result in document.get_all_operations()]


def turns(
    operations: list[APIOperation], first_seed: int
) -> Iterator[tuple[APIOperation, GenerationMode, int]]:
    """Every operation in every mode, again and again, with seeds that do not repeat."""
    number = first_seed * 1_000_000
    while True:
        for operation in operations:
            for mode in MODES:
                number += 1
                yield operation, mode, number


def send_cases(
    operation: APIOperation, mode: GenerationMode, number: int, end: float, results: Counter[str]
) -> None:
    """Send up to CASES_PER_TURN cases, and count their statuses; prints a server error."""

    @seed(number)
    @settings(
        max_examples=CASES_PER_TURN,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: Case) -> None:
        if time.monotonic() > end:
            return
        try:
            status = case.call(timeout=TIMEOUT_S).status_code
        except RequestException as error:
            results[type(error).__name__] += 1
            return
        results[str(status)] += 1
        if status >= 500 and status != NOT_IMPLEMENTED:
            print(f"{status}: {case.as_curl_command()}"[:2000], flush=True)

    send()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    results: Counter[str] = Counter()
    with serving(SMALL_KV_CACHE) as server:
        warm_up(server)
        known, end, num_unusable = operations(server), time.monotonic() + options.seconds, Counter()
        for operation, mode, number in turns(known, options.seed):
            if time.monotonic() > end or not server.is_alive:
                break
            try:
                send_cases(operation, mode, number, end, results)
            except Exception as error:  # nothing can be invalid in an operation without parameters
                num_unusable[f"{operation.label}: {type(error).__name__}"] += 1
        is_ready = server.is_alive and server.request("GET", "/health/ready").status == 200
    errors = {
        status: count for status, count in results.items() if status.startswith("5") and status != "501"
    }
    figures = [
        JudgedFigure("operations of the document", f"{len(known)}", "all", bool(known)),
        JudgedFigure(
            "cases", f"{results.total()}: {dict(sorted(results.items()))}", "50,000 in all batches", True
        ),
        JudgedFigure("server errors but 501", f"{errors or 0}", "0", not errors),
        JudgedFigure("/health/ready at the end", "200" if is_ready else "no", "200", is_ready),
    ]
    print_table("Cases of the OpenAPI document", figures)
    return exit_code(figures)


if __name__ == "__main__":
    sys.exit(main())
