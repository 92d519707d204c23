"""A child process of a job: in a session of its own, nice, with a tight heap, killed as a group.

Knows processes and signals. Does not know what the child computes.
"""

import contextlib
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from inference.process.child_program import ChildProgram

MAX_LAST_WORDS = 2000  # bytes of the error output
OUTPUT_FILE = "output.txt"  # what the child printed, errors included

# With glibc's defaults the heap takes up to 2.4 times the memory that is planned.
TIGHT_HEAP = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
SECRETS = ("API_KEYS", "HUGGINGFACE_ACCESS_TOKEN", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")  # no child needs one


class ChildProcess:
    """A program at work in `folder`. Start it on a thread that lives as long as the child may.

    connection  a socket that the child gets, see ChildProgram
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        threads: int,
        nice: int,
        connection: socket.socket | None = None,
    ) -> None:
        self.folder = folder
        with (folder / OUTPUT_FILE).open("wb") as output:
            self._process = ChildProgram(
                (*command, str(folder)),
                nice=nice,
                env=child_environment(os.environ, threads),
                stdout=output,
                connection=connection,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_s(self) -> float:
        """CPU time that it has used; 0 once it has ended."""
        with contextlib.suppress(psutil.Error):
            times = psutil.Process(self.pid).cpu_times()
            return float(times.user + times.system)
        return 0.0

    def exit_code(self) -> int | None:
        """None: it runs; negative: the signal that ended it. What is left of its group is killed then."""
        if self._process.returncode is None and self._process.poll() is not None:
            self._process.kill()
        return self._process.returncode

    def terminate(self) -> None:
        """Ask it to save its state and to end."""
        self._process.terminate()

    def kill(self) -> None:
        """End it and its own children. Returns when it is gone."""
        self._process.kill()
        self._process.wait()

    def wait(self, timeout_s: float) -> bool:
        """Whether it has ended, after at most `timeout_s`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        return self.exit_code() is not None

    def last_words(self) -> str:
        """The last lines of what it printed."""
        output = self.folder / OUTPUT_FILE
        with output.open("rb") as file:
            file.seek(max(0, output.stat().st_size - MAX_LAST_WORDS))
            return file.read().decode(errors="replace").strip()


def child_environment(environment: Mapping[str, str], threads: int) -> dict[str, str]:
    kept_names = environment.keys() - set(SECRETS)
    return {
        **{name: environment[name] for name in kept_names},
        **TIGHT_HEAP,
        "OMP_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
    }
