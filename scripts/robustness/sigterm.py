"""SIGTERM at 20 moments, ten of the start and ten of serving: every process ends in time.

    python -m scripts.robustness.sigterm

A signal while the server starts ends it by the signal, or with exit code 0. While it serves, each answer is
whole or ends with an error.
"""

import json
import signal
import sys
import threading
import time
from collections import Counter

from scripts.loopback import free_port
from scripts.robustness.bystanders import STREAM
from scripts.robustness.figures import JudgedFigure, exit_code, print_table
from scripts.robustness.ordinary import ORDINARY
from scripts.robustness.server import JSON_TYPE, Server, serving, start_server

START_MOMENTS_S = (0.05, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
SERVING_MOMENTS_S = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
DRAIN_S = 1
MAX_EXIT_S = 15.0  # the drain, and a busy machine
NUM_STREAMS = 8
START_EXITS = frozenset((0, -signal.SIGTERM))
LONG_STREAM = json.dumps(STREAM | {"max_tokens": 1500, "ignore_eos": True})


def wait_for_exit(server: Server) -> tuple[int, float]:
    """The exit code, and the seconds until it; a process that does not end is killed."""
    start = time.monotonic()
    try:
        return server.process.wait(MAX_EXIT_S), time.monotonic() - start
    except Exception:
        server.process.kill()
        raise


def terminate_start(moment_s: float) -> tuple[bool, float]:
    """Whether a start ends properly after a signal at `moment_s`, and the seconds that it takes."""
    server = start_server(free_port(), f"--drain-seconds={DRAIN_S}")
    time.sleep(moment_s)
    server.process.terminate()
    code, seconds = wait_for_exit(server)
    print(f"start, {moment_s:5.2f} s: exit code {code}, {seconds:.1f} s", flush=True)
    return code in START_EXITS, seconds


def read_stream(server: Server, ends: Counter[str]) -> None:
    """Count how a long stream ends: with [DONE], with an error, or torn."""
    connection = server.connect()
    try:
        connection.request("POST", "/v1/completions", LONG_STREAM, JSON_TYPE)
        response = connection.getresponse()
        text = response.read()
    except OSError:
        ends["refused"] += 1
        return
    is_whole = text.rstrip().endswith(b"[DONE]") or response.status != 200
    ends["whole or with an error" if is_whole else "torn"] += 1


def terminate_serving(moment_s: float, ends: Counter[str]) -> tuple[bool, float]:
    with serving(f"--drain-seconds={DRAIN_S}") as server:
        for path, body in ORDINARY:
            server.post(path, body)
        threads = [threading.Thread(target=read_stream, args=(server, ends)) for _ in range(NUM_STREAMS)]
        for thread in threads:
            thread.start()
        time.sleep(moment_s)
        server.process.terminate()
        code, seconds = wait_for_exit(server)
        for thread in threads:
            thread.join()
    print(f"serving, {moment_s:5.2f} s: exit code {code}, {seconds:.1f} s, streams {dict(ends)}", flush=True)
    return code == 0, seconds


def main() -> int:
    ends: Counter[str] = Counter()
    results = [terminate_start(moment_s) for moment_s in START_MOMENTS_S]
    results += [terminate_serving(moment_s, ends) for moment_s in SERVING_MOMENTS_S]
    num_proper, slowest = sum(is_proper for is_proper, _ in results), max(seconds for _, seconds in results)
    figures = [
        JudgedFigure(
            "ends with a known exit code",
            f"{num_proper} of {len(results)}",
            "all",
            num_proper == len(results),
        ),
        JudgedFigure("slowest end", f"{slowest:.1f} s", f"{MAX_EXIT_S:g} s", slowest <= MAX_EXIT_S),
        JudgedFigure("streams", f"{dict(ends)}", "none torn", not ends["torn"]),
    ]
    print_table("SIGTERM at 20 moments", figures)
    return exit_code(figures)


if __name__ == "__main__":
    sys.exit(main())
