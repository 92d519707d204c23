"""Finds out in a process of its own what a grammar costs to compile, before the server compiles it.

llguidance has limits for most of its work, and none for combining the patterns of a JSON schema: twenty in an
allOf take all memory, and a failed allocation ends the process.
"""

import json
import logging
import math
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

import psutil

from inference.drain_rate import overloaded
from inference.errors import Overloaded

# Overrides of llguidance's limits. Its default fuel of 1,000,000 lasts for 1.5 s; that of a step, 200,000,
# for 50 ms in which no answer gets a token. A lexer state takes up to 2 kB: 30,000 are 60 MB. An object with
# 2,000 optional properties has 8,000 items in a row of the parser.
LIMITS = {
    "initial_lexer_fuel": 200_000,
    "step_lexer_fuel": 50_000,
    "max_lexer_states": 30_000,
    "max_items_in_row": 10_000,
    "verbose_errors": False,
}

MAX_S = 1.0  # of CPU time
MAX_BYTES = 256 << 20
OWN_BYTES = 64 << 20  # more than the process needs for itself
MAX_WALL_S = 10.0  # on a busy machine
NICENESS = 5  # of the process: a fourth of a busy core, while answers are computed on it
POLL_S = 0.02
SCRIPT = Path(__file__).with_name("check_process.py")

log = logging.getLogger(__name__)


class GrammarTooCostly(ValueError):
    """The grammar exceeds a limit; the message is the reason."""


class CheckAbandoned(Exception):
    """The request that needs the grammar has been cancelled."""


class ProcessUsage(NamedTuple):
    """What the process has used: CPU seconds since its start, and resident bytes."""

    cpu_s: float
    resident_bytes: int


class GrammarChecker:
    """Checks one grammar at a time; for one thread. The process starts with the first check."""

    def __init__(self) -> None:
        self._process: CheckProcess | None = None

    def check(self, grammar: str, is_abandoned: Callable[[], bool]) -> float:
        """The CPU seconds that the grammar takes to compile.

        Raises GrammarTooCostly, ValueError with llguidance's error, CheckAbandoned once `is_abandoned`, or
        Overloaded if the machine is too busy for an answer within MAX_WALL_S.
        """
        if self._process is None or self._process.has_ended:
            self._process = CheckProcess()
        try:
            seconds, error = self._process.check(json.dumps([grammar, LIMITS]), is_abandoned)
        except (GrammarTooCostly, CheckAbandoned, Overloaded):
            self.close()
            raise
        if error:
            raise ValueError(error)
        return seconds

    def close(self) -> None:
        """End the process. Idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process = None


class CheckProcess:
    """A process that runs check_process.py, and a thread that reads its results."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(SCRIPT), str(MAX_BYTES), str(MAX_S)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        if hasattr(os, "setpriority"):  # before it imports its library: that takes a tenth of a second
            os.setpriority(os.PRIO_PROCESS, self._process.pid, NICENESS)
        self._results: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        assert self._process.stdin and self._process.stdout
        self._stdin: IO[bytes] = self._process.stdin
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def check(self, line: str, is_abandoned: Callable[[], bool]) -> tuple[float, str]:
        started_s, end = self._usage().cpu_s, time.monotonic() + MAX_WALL_S
        with suppress(OSError):  # it has ended: b"" is in the queue
            self._stdin.write(line.encode() + b"\n")
            self._stdin.flush()
        while True:
            try:
                result = self._results.get(timeout=POLL_S)
            except queue.Empty:
                if is_abandoned():
                    raise CheckAbandoned from None
                usage = self._usage()
                if usage.cpu_s - started_s > MAX_S:
                    raise too_slow(usage.cpu_s - started_s) from None
                if usage.resident_bytes > MAX_BYTES + OWN_BYTES:  # where the system does not limit them
                    raise beyond_limits() from None
                if time.monotonic() > end:
                    raise overloaded(None, MAX_WALL_S) from None
                continue
            if not result:
                raise error_of_exit(self._process.wait())
            return tuple(json.loads(result))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        with suppress(OSError):  # bytes that it has not read
            self._stdin.close()

    def _read(self, stdout: IO[bytes]) -> None:
        """Queue the results, and b"" when the process has ended."""
        with stdout:
            for result in stdout:
                self._results.put(result)
        self._results.put(b"")

    def _usage(self) -> ProcessUsage:
        try:
            process = psutil.Process(self._process.pid)
            times, memory = process.cpu_times(), process.memory_info()
        except psutil.Error:  # it has ended: its last result is in the queue
            return ProcessUsage(-math.inf, 0)
        return ProcessUsage(times.user + times.system, memory.rss)


def too_slow(seconds: float) -> GrammarTooCostly:
    return GrammarTooCostly(
        f"it takes more than {MAX_S:g} s to compile ({seconds:.1f} s so far): combine fewer patterns"
    )


def error_of_exit(exit_code: int) -> Exception:
    """A limit ends the process by a signal: after a failed allocation, or at the limit of CPU time."""
    log.info("event=grammar_check_ended exit_code=%d", exit_code)
    if exit_code > 0:
        return RuntimeError(f"{SCRIPT.name} has ended with exit code {exit_code}")
    return beyond_limits()


def beyond_limits() -> GrammarTooCostly:
    return GrammarTooCostly(
        f"it takes more than {MAX_BYTES >> 20} MB or {MAX_S:g} s to compile: combine fewer patterns"
    )
