"""An engine without a server, in another Python environment: a driver process that reads loads from a pipe.

The driver prints {"description": …} when it is ready. Then it reads one line of JSON for each load,
[[token_ids, num_tokens], …], and prints {"token_times": [[seconds, …], …], "seconds": …, "tokens": …}.
"""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from scripts.bench.engine_under_test import EngineFailed
from scripts.bench.load import Load, Run
from scripts.bench.options import BenchOptions
from scripts.bench.process_tree import ProcessTree
from scripts.bench.server import ROOT


class SubprocessEngine:
    """An EngineUnderTest.

    command      starts the driver
    environment  environment variables to add
    log          a file to which its stderr is appended; None: our own stderr
    limit_s      seconds after which it is ended, so that nothing waits for it forever; None: never
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
        limit_s: float | None = None,
    ) -> None:
        with open(log, "a") if log else nullcontext() as stderr:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=os.environ | (environment or {}),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )
        self._processes = ProcessTree(self._process.pid)
        self._limit = threading.Timer(limit_s or threading.TIMEOUT_MAX, self._kill)
        self._limit.daemon = True
        self._limit.start()
        self.description: str = self._read_line()["description"]

    def run(self, load: Load) -> Run:
        self._processes.reset_peak()
        cpu_s = self._processes.cpu_s()
        self._write_line(json.dumps([[request.ids, request.num_tokens] for request in load]))
        report = self._read_line()
        cpu_s = self._processes.cpu_s() - cpu_s
        return Run(
            report["seconds"], report["token_times"], report["tokens"], cpu_s, self._processes.peak_mb()
        )

    def stop(self) -> None:
        self._limit.cancel()
        self._kill()
        self._process.wait(timeout=60)

    def _kill(self) -> None:
        """End the driver and all that it has started, also what has outlived it."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _write_line(self, line: str) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # the process has ended; _read_line raises

    def _read_line(self) -> dict[str, Any]:
        assert self._process.stdout
        if not (line := self._process.stdout.readline()):
            raise EngineFailed(f"the driver ended with code {self._process.wait()}")
        report: dict[str, Any] = json.loads(line)
        return report


def driver_starter(python: str, driver: str) -> Callable[[BenchOptions, str, Path], SubprocessEngine]:
    """A `start` function for PeerEngine: runs a module of scripts.bench.drivers with another engine's Python.

    python: path of the interpreter below the engines folder.
    """

    def start(options: BenchOptions, weight_format: str, model: Path) -> SubprocessEngine:
        interpreter = str(Path(options.engines_folder, python).absolute())
        return SubprocessEngine(
            [interpreter, "-m", f"scripts.bench.drivers.{driver}", str(model), str(options.threads)]
        )

    return start
