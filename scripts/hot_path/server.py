"""Runs the real server in this process with main.py's `main`, and its client on a thread.

`main` has the main thread, as in production. The client's thread sends the requests, and then SIGTERM.
"""

import contextlib
import http.client
import json
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterable

from main import main
from scripts.hot_path.measurement import Measurement, measurement
from scripts.hot_path.recorder import ExecutionRecorder
from scripts.hot_path.targets import DIALECTS, MODEL, NUM_TOKENS, RUNNER_FLAG, Target
from scripts.loopback import HOST, free_port

NUM_WARMUPS = 2
READY_TIMEOUT_S = 300
IDLE_S = 1  # recorded without a request
QUIET_S = 0.2  # a request is complete after this time without a recorded call
POLL_S = 0.05


class WrongAnswer(Exception):
    """The server failed or refused a request, or its answer does not have NUM_TOKENS tokens."""


def measure(runner: str, dialects: Iterable[str], recorder: ExecutionRecorder) -> list[Measurement]:
    """Start the server with `runner`, measure a request of each dialect, and stop the server."""
    port = free_port()
    client = Client(port, recorder)
    thread = threading.Thread(target=client.run, args=(runner, dialects))
    flags = ("--model", MODEL, "--host", HOST, "--port", str(port), "--log-level", "warning")
    with contextlib.redirect_stdout(sys.stderr):
        thread.start()
        code = main([*flags, RUNNER_FLAG, runner])
        client.server_exit.set()
        thread.join()
    if client.error or code:
        raise client.error or WrongAnswer(f"main.py ended with exit code {code}")
    return client.measurements


class Client:
    """Measures requests on one keep-alive connection."""

    def __init__(self, port: int, recorder: ExecutionRecorder) -> None:
        self.connection = http.client.HTTPConnection(HOST, port, timeout=60)
        self.recorder = recorder
        self.server_exit = threading.Event()
        self.measurements: list[Measurement] = []
        self.error: Exception | None = None

    def run(self, runner: str, dialects: Iterable[str]) -> None:
        """Fill `measurements`, or set `error`; then end the server with SIGTERM."""
        try:
            self.wait_until_ready()
            time.sleep(QUIET_S)
            self.recorder.record_idle(IDLE_S)
            for dialect in dialects:
                self.record(DIALECTS[dialect])
                self.measurements.append(measurement(runner, dialect, self.recorder))
        except Exception as error:
            self.error = error
            traceback.print_exc()  # now, because SIGTERM ends this process if the server is not ready
        if not self.server_exit.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    def wait_until_ready(self) -> None:
        end = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < end and not self.server_exit.is_set():
            try:
                self.request("GET", "/health/ready")
                return
            except OSError:
                self.connection.close()
                time.sleep(POLL_S)
        raise WrongAnswer("the server was not ready in time")

    def record(self, target: Target) -> None:
        """Send the request NUM_WARMUPS times, then once more; the recorder has only the last one."""
        for _ in range(NUM_WARMUPS):
            self.stream(target)
        before = self.num_generated()
        self.stream(target)
        self.recorder.stop()
        if (count := self.num_generated() - before) != NUM_TOKENS:
            raise WrongAnswer(f"{target.path}: {count} tokens, not {NUM_TOKENS}")

    def stream(self, target: Target) -> None:
        """Record one request, until QUIET_S have passed without a call."""
        self.recorder.start()
        self.request("POST", target.path, json.dumps(target.body))
        num_calls = -1
        while num_calls != len(self.recorder.calls):
            num_calls = len(self.recorder.calls)
            time.sleep(QUIET_S)

    def num_generated(self) -> int:
        """Tokens that the server has generated so far, from its metrics."""
        text = self.request("GET", "/metrics")
        return int(float(re.findall(r"^vllm:generation_tokens_total\{.*\} (\S+)$", text, re.MULTILINE)[0]))

    def request(self, method: str, path: str, body: str | None = None) -> str:
        self.connection.request(method, path, body, {"Content-Type": "application/json"})
        response = self.connection.getresponse()
        text = response.read().decode()
        if response.status != http.client.OK:
            raise WrongAnswer(f"{path}: {response.status} {text[:500]}")
        return text
