"""The processes of the real clients: each imports its client once, and runs all the drivers that call it."""

import json
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from tests.clients.environments import python

HERE = Path(__file__).parent


class ClientProcess:
    """A process in the environment `name` that runs drivers one after another (run_drivers.py)."""

    def __init__(self, name: str) -> None:
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - `end` closes it
        self._process = subprocess.Popen(
            [python(name), HERE / "run_drivers.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def run(self, driver: str, *arguments: str) -> Any:
        """The JSON that `driver`, a file in this folder, prints."""
        assert self._process.stdin and self._process.stdout
        print(json.dumps([str(HERE / driver), *arguments]), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, f"it has ended with {self._process.wait()}: {self._read_log()}"
        reply = json.loads(line)
        assert "printed" in reply, reply["error"] + self._read_log()
        return json.loads(reply["printed"])

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def _read_log(self) -> str:
        self._log.seek(0)
        return self._log.read()


RUNNING: dict[str, ClientProcess] = {}  # by the names of their environments


@cache
def run_driver(name: str, driver: str, *arguments: str) -> Any:
    """The JSON that `driver` prints in the environment `name`."""
    process = RUNNING.get(name) or RUNNING.setdefault(name, ClientProcess(name))
    try:
        return process.run(driver, *arguments)
    except BaseException:  # also a time limit of pytest's: what the process says next is no reply to others
        RUNNING.pop(name).end()
        raise


def end_all() -> None:
    while RUNNING:
        RUNNING.popitem()[1].end()
