"""Times `main.py --check` in a child process, each time with an empty cache.

The local Hub counts requests and bytes.
"""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from scripts.bench.server import ROOT
from scripts.markdown import markdown_row
from scripts.preflight.latency.hub import LocalHub

COLUMNS = ("model", "shards", "seconds", "requests", "bytes")
MAX_S, MAX_BYTES = 5.0, 2_000_000


@dataclass(frozen=True, slots=True)
class Timing:
    """What a check of a model takes.

    seconds                   median of several checks
    num_requests, wire_bytes  mean of one check; bytes in both directions
    """

    seconds: float
    num_requests: int
    wire_bytes: int


def exceeds_limits(timing: Timing) -> bool:
    return timing.seconds >= MAX_S or timing.wire_bytes >= MAX_BYTES


def timing_row(name: str, shards: int, timing: Timing) -> str:
    return markdown_row(
        (name, str(shards), f"{timing.seconds:.2f}", str(timing.num_requests), f"{timing.wire_bytes:,}")
    )


def time_checks(hub: LocalHub, scratch: Path, times: int) -> Timing:
    """Raises subprocess.SubprocessError if a check does not print its table."""
    seconds = [time_check(hub, scratch / str(number)) for number in range(times)]
    return Timing(median(seconds), hub.num_requests // times, hub.wire_bytes // times)


def time_check(hub: LocalHub, cache: Path) -> float:
    command = [sys.executable, str(ROOT / "main.py"), "--check", f"--model-name={hub.name}", "--port=0"]
    environment = os.environ | {"HF_ENDPOINT": hub.url, "CACHE_DIR": str(cache), "HF_TOKEN": ""}
    start_s = time.perf_counter()
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start_s
    if hub.name not in result.stdout or "weights" not in result.stdout:
        raise subprocess.SubprocessError(result.stdout + result.stderr)
    return seconds
