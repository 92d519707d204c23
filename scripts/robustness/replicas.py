"""Replicas of one model, which can be killed, stopped and drained, and a front that has them as members.

The replicas are forked from a process that has imported the libraries, so that a machine with few cores
spends its time on answers. `python -m scripts.robustness.replicas MODEL` is that process.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

import psutil

from scripts.loopback import HOST, READY_POLL_S, free_port, wait_until_ready
from scripts.robustness.server import READY_TIMEOUT_S, Server, start_server

DEMO = "models/demo"
FLAGS = "--responses-store=off", "--tuning-dir=off", "--log-level=error", "--threads=1", "--runner=fused"
# The demo model is in float32; one in bfloat16 answers the same in every batch with this.
OTHER_MODELS_FLAGS = ("--deterministic",)
MAX_END_S, END_POLL_S = 60.0, 0.05  # of a replica that drains
STOPPED_S = 6.0
# A stopped replica holds its connections open: the front has to notice its silence. On a machine that is busy
# with other things, replicas that work are as silent.
SHORT_TIMEOUTS = {"connect": 2, "first": 8, "silence": 2}


class Replicas:
    """The replicas of a model, each on a port of its own. All methods block."""

    def __init__(self, num_replicas: int, model: str) -> None:
        self.ports = [free_port() for _ in range(num_replicas)]
        self._pids: dict[int, int] = {}
        command = [sys.executable, "-m", "scripts.robustness.replicas", model]
        pipe = subprocess.PIPE
        self._forker = subprocess.Popen(command, stdin=pipe, stdout=pipe)
        for port in self.ports:
            self.start(port)

    def start(self, port: int) -> None:
        assert self._forker.stdin and self._forker.stdout
        self._forker.stdin.write(f"{port}\n".encode())
        self._forker.stdin.flush()
        self._pids[port] = int(self._forker.stdout.readline())

    def wait_until_ready(self) -> None:
        for port in self.ports:
            assert wait_until_ready(ready_url(port), self._forker, READY_TIMEOUT_S), "a replica did not start"

    def is_ready(self, port: int) -> bool:
        return wait_until_ready(ready_url(port), self._forker, READY_POLL_S)

    def kill(self, port: int) -> None:
        """End the replica as by kill -9, and start it again."""
        self._end(port, signal.SIGKILL)

    def drain(self, port: int) -> None:
        """End the replica by SIGTERM once its answers have ended, and start it again."""
        self._end(port, signal.SIGTERM)

    def stop(self, port: int) -> None:
        """Let the replica do nothing for STOPPED_S, as a machine that has no memory or no network left."""
        os.kill(self._pids[port], signal.SIGSTOP)
        time.sleep(STOPPED_S)
        os.kill(self._pids[port], signal.SIGCONT)

    def close(self) -> None:
        for pid in self._pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._forker.kill()
        self._forker.wait()

    def _end(self, port: int, number: signal.Signals) -> None:
        os.kill(self._pids[port], number)
        end = time.monotonic() + MAX_END_S
        while psutil.pid_exists(self._pids[port]):
            assert time.monotonic() < end, "a replica does not end"
            time.sleep(END_POLL_S)
        self.start(port)


@contextlib.contextmanager
def serving_front(ports: Sequence[int], model: str, timeouts: Mapping[str, float]) -> Iterator[Server]:
    """A server whose model has the replicas at these ports as its members. timeouts: of its entry."""
    members = [f"hearth:http://{HOST}:{port}" for port in ports]
    models = json.dumps([{"base_model": model, "members": members, "timeouts": timeouts}])
    front = start_server(free_port(), "--models", models, "--tuning-dir=off")
    try:
        is_ready = wait_until_ready(ready_url(front.port), front.process, READY_TIMEOUT_S)
        assert is_ready, "the front did not start"
        yield front
    finally:
        front.process.terminate()
        front.process.wait()


def ready_url(port: int) -> str:
    return f"http://{HOST}:{port}/health/ready"


def fork_servers(model: str) -> None:
    """For each port in standard input, fork a server that listens on it, and print its process id."""
    import main
    import startup.serve_one  # noqa: F401 - imports what a server needs

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # a server that was killed is gone, not a zombie
    for line in sys.stdin:
        if pid := os.fork():
            print(pid, flush=True)
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        flags = (*FLAGS, *(() if model == DEMO else OTHER_MODELS_FLAGS))
        os._exit(main.main(["--model", model, "--port", line.strip(), "--kv-memory-gb=0.2", *flags]))


if __name__ == "__main__":
    fork_servers(sys.argv[1])
