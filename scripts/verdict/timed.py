"""A verdict of the command itself, timed from outside: each time from an empty cache.

Knows processes; what is asked of whom is the Hub's account.
"""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from scripts.bench.server import ROOT
from scripts.verdict.hub import Hub
from scripts.weigh.table import bars

CELLS = ("model", "shards", "seconds", "requests", "bytes")
MOST_S, MOST_BYTES = 5.0, 2_000_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """seconds: the median of several; requests, wire (bytes both ways): of one."""

    seconds: float
    requests: int
    wire: int


def too_much(told: Verdict) -> bool:
    return told.seconds >= MOST_S or told.wire >= MOST_BYTES


def row(name: str, shards: int, told: Verdict) -> str:
    return bars((name, str(shards), f"{told.seconds:.2f}", str(told.requests), f"{told.wire:,}"))


def timed(hub: Hub, scratch: Path, times: int) -> Verdict:
    """Raises subprocess.SubprocessError where there is no verdict."""
    seconds = [once(hub, scratch / str(turn)) for turn in range(times)]
    return Verdict(median(seconds), hub.requests // times, hub.wire // times)


def once(hub: Hub, cache: Path) -> float:
    command = [sys.executable, str(ROOT / "main.py"), "--check", f"--model-name={hub.name}", "--port=0"]
    environment = os.environ | {"HF_ENDPOINT": hub.url, "CACHE_DIR": str(cache), "HF_TOKEN": ""}
    begun = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    took = time.perf_counter() - begun
    if hub.name not in done.stdout or "weights" not in done.stdout:
        raise subprocess.SubprocessError(done.stdout + done.stderr)
    return took
