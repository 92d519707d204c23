"""Fetches of acme/large in processes of their own: forks of one that has imported the client of the Hub.

python -m tests.hub.download.fetching; for each line of standard input, a JSON array of endpoint, cache and
folder, it forks a process that fetches, and prints its id. Output and exit code go to the folder.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from hub.client import Hub
from hub.download import fetch
from hub.download.disk_guard import DiskGuard
from hub.download.retry import DownloadOptions
from hub.resolve import find_model
from inference.finding import Refused
from inference.process.child_program import ROOT
from tests.hub.download.conftest import PIECE_BYTES

OUTPUT, ERRORS, EXIT_CODE = "output.txt", "errors.txt", "exit_code.txt"


class FetchProcess:
    """A fetch in a fork of `forks`."""

    def __init__(self, forks: subprocess.Popen[str], client: Hub, folder: Path) -> None:
        assert forks.stdin and forks.stdout
        self.folder = folder
        folder.mkdir()
        print(json.dumps([client.endpoint, str(client.cache_dir), str(folder)]), file=forks.stdin, flush=True)
        self.pid = int(forks.stdout.readline())

    def wait(self, timeout_s: float) -> int | None:
        """Its exit code; None if it was killed."""
        end = time.monotonic() + timeout_s
        while psutil.pid_exists(self.pid):
            assert time.monotonic() < end
            time.sleep(0.01)
        code = self.folder / EXIT_CODE
        return int(code.read_text()) if code.exists() else None

    def read(self, name: str) -> str:
        """What it has printed so far, to OUTPUT or ERRORS."""
        file = self.folder / name
        return file.read_text() if file.exists() else ""

    def send_signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)


@contextmanager
def running_forks() -> Iterator[subprocess.Popen[str]]:
    """The process that forks. The fetches know it as their parent."""
    command = [sys.executable, "-m", "tests.hub.download.fetching"]
    environment = os.environ | {"NO_PROXY": "127.0.0.1,localhost"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, text=True) as process:
        yield process


def run_fetch(endpoint: str, cache: Path, folder: Path) -> None:
    """Fetch in this process, and end it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for stream, name in ((sys.stdout, OUTPUT), (sys.stderr, ERRORS)):
        with (folder / name).open("w") as file:
            os.dup2(file.fileno(), stream.fileno())
    hub, code = Hub(endpoint, cache), 0
    options = DownloadOptions(num_connections=4, piece_bytes=PIECE_BYTES, timeout_s=300, quiet_s=0)
    try:
        repository = find_model("acme/large", "main", home=Path("."), hub=hub, offline=False)
        fetch(repository, hub, disk_guard=DiskGuard(cache, spare_bytes=0), options=options)
    except Refused as refused:
        print(refused.finding.have, refused.finding.fix, sep=": ", flush=True)
        code = 1
    (folder / EXIT_CODE).write_text(str(code))
    os._exit(code)


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # a fetch that was killed is gone, not a zombie
    for line in sys.stdin:
        endpoint, cache, folder = json.loads(line)
        if pid := os.fork():
            print(pid, flush=True)
        else:
            run_fetch(endpoint, Path(cache), Path(folder))
