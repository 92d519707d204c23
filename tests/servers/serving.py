"""The real server in a separate process, for tests that use it as clients do."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import requests

from scripts.loopback import free_port
from tests.servers.forked_main import ForkedMain

ROOT = Path(__file__).parents[2]
READY_TIMEOUT_S = 120


@dataclass(frozen=True)
class ServerProcess:
    url: str
    process: subprocess.Popen[bytes] | ForkedMain

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def usage(self) -> tuple[int, int, int]:
        """Threads, file descriptors and resident bytes of the server's process."""
        process = psutil.Process(self.process.pid)
        return process.num_threads(), process.num_fds(), process.memory_info().rss

    @property
    def cpu_seconds(self) -> float:
        """Processor seconds used so far; unlike wall time, they do not grow because other processes are
        busy.
        """
        times = psutil.Process(self.process.pid).cpu_times()
        return times.user + times.system

    def post(self, path: str, body: object, **options: object) -> requests.Response:
        return requests.post(self.url + path, json=body, timeout=60, **options)  # type: ignore[arg-type]


@contextmanager
def serving(*flags: str, model: str = "models/demo") -> Iterator[ServerProcess]:
    """Runs main.py on a free port of this machine: ready on entry, stopped on exit."""
    port = free_port()
    arguments = ["--model", model, "--port", str(port), *flags]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    process: subprocess.Popen[bytes] | ForkedMain
    if "--num-shard" in flags:  # main.py imports the libraries in another way
        process = subprocess.Popen([sys.executable, "main.py", *arguments], cwd=ROOT, env=environment)
    else:
        process = ForkedMain(arguments, environment)
    try:
        wait_until_ready(f"http://127.0.0.1:{port}", process)
        yield ServerProcess(f"http://127.0.0.1:{port}", process)
    finally:
        process.terminate()
        process.wait(timeout=60)


def wait_until_ready(url: str, process: subprocess.Popen | ForkedMain, path: str = "/health/ready") -> None:
    end = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < end:
        assert process.poll() is None, f"the server stopped with exit code {process.returncode}"
        try:
            if requests.get(f"{url}{path}", timeout=READY_TIMEOUT_S).ok:
                return
        except requests.ConnectionError:
            pass
        time.sleep(0.1)
    raise AssertionError(f"the server was not ready within {READY_TIMEOUT_S} s")
