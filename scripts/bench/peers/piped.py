"""A Player in another Python environment, which has no server: a driver that is told loads through pipes.

A driver reads a line for each load, [[ids, tokens], …] in JSON, and answers with one, when it is ready for
the first with {"about": …}, then with {"stamps": [[seconds, …], …], "seconds": …, "tokens": …}.
"""

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scripts.bench.contender import Lost
from scripts.bench.load import Load, Run
from scripts.bench.server import ROOT
from scripts.bench.terms import Terms
from scripts.bench.tree import Tree


class Piped:
    """command starts the driver."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._tree = Tree(self._process.pid)
        self.about: str = self._answer()["about"]

    def run(self, load: Load) -> Run:
        self._tree.reset_peak()
        worked = self._tree.worked()
        self._say(json.dumps([[request.ids, request.tokens] for request in load]))
        told = self._answer()
        worked = self._tree.worked() - worked
        return Run(told["seconds"], told["stamps"], told["tokens"], worked, self._tree.peak_mb())

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=60)

    def _say(self, line: str) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it has ended; there is no answer

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        if not (line := self._process.stdout.readline()):
            raise Lost(f"its driver ended with code {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def driven(python: str, driver: str) -> Callable[[Terms, str, Path], Piped]:
    """What starts a driver, by its module's name, with a Python below the folder of peers."""

    def start(terms: Terms, form: str, model: Path) -> Piped:
        own = str(Path(terms.peers, python).absolute())
        return Piped([own, "-m", f"scripts.bench.drivers.{driver}", str(model), str(terms.threads)])

    return start
