"""Kills replicas under load: every answer must be the one of an undisturbed run, token for token.

    python -m scripts.robustness.killed_replicas [--replicas 2] [--kills 300] [--minutes 20]

A front has the replicas as members of one model. Clients stream greedy answers and sampled ones with seeds
through it, and a replica is killed at a random moment, as by kill -9, and started again, until --kills or
--minutes are over. The replicas are forked from a process that has imported the libraries, so that a machine
with few cores spends its time on answers.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPException
from itertools import count
from typing import Any

from scripts.loopback import HOST, free_port, wait_until_ready
from scripts.robustness.figures import JudgedFigure, exit_code, print_table
from scripts.robustness.server import JSON_TYPE, READY_TIMEOUT_S, Server, start_server

MODEL = "models/demo"
NUM_CLIENTS = 4
MAX_TOKENS = 600
MAX_PAUSE_S = 1.0  # between the moment that all replicas are ready and a kill
MAX_GAP_S = 3.0
QUESTIONS = ("Tell me a story about a fox.", "What is the capital of France?")
SAMPLINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 0},
    {"temperature": 1.0, "seed": 7},
    {"temperature": 0.8, "seed": 0, "top_p": 0.9, "repetition_penalty": 1.1},
)
BODIES = [
    {
        "model": MODEL,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": MAX_TOKENS,
        "ignore_eos": True,
        "stream": True,
        **sampling,
    }
    for question in QUESTIONS
    for sampling in SAMPLINGS
]


@dataclass(frozen=True, slots=True)
class StreamedAnswer:
    """A stream as a client saw it: its deltas as one text, its end, and its longest pause in seconds."""

    text: str
    finish_reason: str
    gap_s: float


@dataclass(slots=True)
class Tally:
    """What came of the answers. differing: those that are not the ones of the undisturbed run."""

    num_answers: int = 0
    differing: list[StreamedAnswer] = field(default_factory=list)
    gap_s: float = 0.0

    def add(self, streamed: StreamedAnswer, expected: StreamedAnswer) -> None:
        self.num_answers += 1
        self.gap_s = max(self.gap_s, streamed.gap_s)
        if (streamed.text, streamed.finish_reason) != (expected.text, expected.finish_reason):
            self.differing.append(streamed)


class Replicas:
    """The replicas, each on a port of its own, forked from one process."""

    def __init__(self, num_replicas: int) -> None:
        self.ports = [free_port() for _ in range(num_replicas)]
        self.num_kills = 0
        self._pids: dict[int, int] = {}
        command = [sys.executable, "-m", "scripts.robustness.killed_replicas", "--fork"]
        pipe = subprocess.PIPE
        self._forker = subprocess.Popen(command, stdin=pipe, stdout=pipe)
        for port in self.ports:
            self.start(port)

    @property
    def servers(self) -> list[str]:
        return [f"hearth:http://{HOST}:{port}" for port in self.ports]

    def start(self, port: int) -> None:
        assert self._forker.stdin and self._forker.stdout
        self._forker.stdin.write(f"{port}\n".encode())
        self._forker.stdin.flush()
        self._pids[port] = int(self._forker.stdout.readline())

    def are_ready(self) -> bool:
        urls = [f"http://{HOST}:{port}/health/ready" for port in self.ports]
        return all(wait_until_ready(url, self._forker, READY_TIMEOUT_S) for url in urls)

    def kill_one(self) -> None:
        """Kill a replica as by kill -9, and start it again."""
        port = random.choice(self.ports)
        os.kill(self._pids[port], signal.SIGKILL)
        self.num_kills += 1
        self.start(port)

    def close(self) -> None:
        for pid in self._pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._forker.kill()
        self._forker.wait()


def fork_servers() -> None:
    """For each port in standard input, fork a server that listens on it, and print its process id."""
    import main
    import startup  # noqa: F401 - imports what a server needs

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # a server that was killed is gone, not a zombie
    for line in sys.stdin:
        if pid := os.fork():
            print(pid, flush=True)
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(2, 1)
        flags = ["--responses-store=off", "--tuning-dir=off", "--log-level=error", "--threads=1"]
        os._exit(main.main(["--model", MODEL, "--port", line.strip(), "--kv-memory-gb=0.2", *flags]))


@contextlib.contextmanager
def serving_front(servers: list[str]) -> Iterator[Server]:
    """A server whose model has `servers` as its members."""
    models = json.dumps([{"base_model": MODEL, "members": servers}])
    front = start_server(free_port(), "--models", models, "--tuning-dir=off")
    try:
        url = f"http://{HOST}:{front.port}/health/ready"
        assert wait_until_ready(url, front.process, READY_TIMEOUT_S), "the front did not start"
        yield front
    finally:
        front.process.terminate()
        front.process.wait()


def read_answer(front: Server, body: dict[str, Any]) -> StreamedAnswer:
    """Stream one answer. An answer that breaks off has the finish reason "broken"."""
    connection = front.connect()
    text, reason, gap_s = "", "broken", 0.0
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), JSON_TYPE)
        last_at = 0.0
        for line in connection.getresponse():
            now = time.monotonic()
            gap_s, last_at = max(gap_s, now - (last_at or now)), now
            for choice in read_choices(line):
                text += choice["delta"].get("content") or ""
                reason = choice["finish_reason"] or reason
    except (OSError, HTTPException):
        pass
    finally:
        connection.close()
    return StreamedAnswer(text, reason, gap_s)


def read_choices(line: bytes) -> list[dict[str, Any]]:
    if not line.startswith(b"data: {"):
        return []
    choices: list[dict[str, Any]] = json.loads(line[len(b"data: ") :]).get("choices", [])
    return choices


def run(num_replicas: int, num_kills: int, minutes: float) -> tuple[Replicas, Tally]:
    """Kill replicas under load. Returns how often, and what came of the answers."""
    replicas, tally = Replicas(num_replicas), Tally()
    numbers, has_ended = count(), threading.Event()
    try:
        assert replicas.are_ready(), "the replicas did not start"
        with serving_front(replicas.servers) as front:
            expected = [read_answer(front, body) for body in BODIES]

            def read_answers() -> None:
                while not has_ended.is_set():
                    number = next(numbers) % len(BODIES)
                    tally.add(read_answer(front, BODIES[number]), expected[number])

            clients = [threading.Thread(target=read_answers) for _ in range(NUM_CLIENTS)]
            for client in clients:
                client.start()
            end = time.monotonic() + 60 * minutes
            while replicas.num_kills < num_kills and time.monotonic() < end and replicas.are_ready():
                time.sleep(random.uniform(0, MAX_PAUSE_S))
                replicas.kill_one()
            has_ended.set()
            for client in clients:
                client.join()
    finally:
        replicas.close()
    return replicas, tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--fork", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.fork:
        fork_servers()
        return 0
    replicas, tally = run(args.replicas, args.kills, args.minutes)
    num_kills, differing = replicas.num_kills, len(tally.differing)
    figures = [
        JudgedFigure("kills", f"{num_kills}", f"{args.kills}", num_kills >= args.kills or None),
        JudgedFigure("answers", f"{tally.num_answers}", "some", tally.num_answers > 0),
        JudgedFigure("answers that differ or broke off", f"{differing}", "0", not differing),
        JudgedFigure(
            "longest pause", f"{tally.gap_s:.2f} s", f"{MAX_GAP_S:.0f} s", tally.gap_s <= MAX_GAP_S or None
        ),
    ]
    print_table("Replicas killed under load", figures)
    return exit_code(figures)


if __name__ == "__main__":
    sys.exit(main())
