"""An engine without a server, in another Python environment: a driver process that reads loads from a pipe.

The driver prints {"description": …} when it is ready. Then it reads one line of JSON for each load,
[[token_ids, num_tokens], …], and prints {"token_times": [[seconds, …], …], "seconds": …, "tokens": …}.
"""

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scripts.bench.engine_under_test import EngineFailed
from scripts.bench.load import Load, Run
from scripts.bench.options import BenchOptions
from scripts.bench.process_tree import ProcessTree
from scripts.bench.server import ROOT


class SubprocessEngine:
    """An EngineUnderTest. command: starts the driver."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._processes = ProcessTree(self._process.pid)
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
        self._process.terminate()
        self._process.wait(timeout=60)

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
