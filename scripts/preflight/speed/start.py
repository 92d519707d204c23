"""Times starts of the server to the first token of a short prompt, over HTTP."""

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from scripts.loopback import HOST, free_port, wait_until_ready

ROOT = Path(__file__).resolve().parents[3]
UNCOUNTED, COUNTED = 2, 3  # starts: the first one packs the weights, the second one proves the mapped ones
TIMEOUT_S = 120.0
PROMPT = {"prompt": "Hello", "max_tokens": 1, "temperature": 0, "stream": True}


class NotMeasured(RuntimeError):
    """The model is not served, or its speed is not estimated; the message says why."""


def measure_start(settings: Mapping[str, object], cache: Path) -> float:
    """Seconds to the first token: the median of COUNTED later starts. Raises NotMeasured.

    settings: values by their names. cache: where starts keep what later ones need not compute
    """
    seconds = [start_once(settings, cache) for _ in range(UNCOUNTED + COUNTED)]
    return sorted(seconds[UNCOUNTED:])[COUNTED // 2]


def start_once(settings: Mapping[str, object], cache: Path) -> float:
    port, began_s = free_port(), time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "main.py", "--port", str(port), "--responses-store=off"],
        cwd=ROOT,
        env={
            **os.environ,
            **{name: str(value) for name, value in settings.items()},
            "XDG_CACHE_HOME": str(cache),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        if not wait_until_ready(f"http://{HOST}:{port}/health/ready", process, TIMEOUT_S):
            raise NotMeasured("the server did not start")
        connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_S)
        connection.request(
            "POST", "/v1/completions", json.dumps(PROMPT), {"Content-Type": "application/json"}
        )
        connection.getresponse().readline()
        return time.perf_counter() - began_s
    finally:
        process.terminate()
        process.wait(TIMEOUT_S)
