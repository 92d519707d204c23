"""main.py as a fork of a process that has imported its libraries, which takes most of a start.

That process starts with the first server of a run. tests/test_main.py executes main.py itself. Windows has no
forks: there the libraries are imported for each server.
"""

import atexit
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import main

TIMEOUT_S = 120

FORKSERVER = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")
FORKSERVER.set_forkserver_preload(["tests.servers.server_imports"])


class ForkedProcess:
    """A process that runs a function, with the methods of subprocess.Popen that tests use."""

    def __init__(self, function: Callable[..., None], *arguments: object) -> None:
        self._process = FORKSERVER.Process(target=function, args=arguments)
        self._process.start()
        assert self._process.pid
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class ForkedMain(ForkedProcess):
    """A running main.py."""

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        super().__init__(run_main, arguments, environment)


def run_to_end(arguments: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """main.py until it ends, and what it has printed."""
    with TemporaryDirectory() as folder:
        outputs = Path(folder, "stdout"), Path(folder, "stderr")
        code = ForkedProcess(run_into_files, arguments, environment, *outputs).wait(TIMEOUT_S)
        printed, errors = (output.read_text("utf-8") for output in outputs)
    return subprocess.CompletedProcess(arguments, code, printed, errors)


def run_into_files(arguments: list[str], environment: dict[str, str], *outputs: Path) -> None:
    for descriptor, output in enumerate(outputs, start=1):
        with output.open("wb") as file:
            os.dup2(file.fileno(), descriptor)
    run_main(arguments, environment)


def run_main(arguments: list[str], environment: dict[str, str]) -> None:
    """Run a command line of main.py in this process, as if the process had just started."""
    os.environ.clear()
    os.environ.update(environment)
    try:
        sys.exit(main.main(arguments))
    finally:
        atexit._run_exitfuncs()
