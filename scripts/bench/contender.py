"""Who is measured: something that starts, computes loads, and stops.

To add a peer, write a Player and name it in a piece's contenders. One that computes in this Python goes
through `Apart`, so that no two share threads, memory, or what they change in transformers.
"""

import multiprocessing
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Protocol

from scripts.bench.load import Load, Run


class Lost(SystemExit):
    """A contender did not start, ended, or gave a wrong answer; it says what happened."""


class Player(Protocol):
    """about: a few words on how it computes, "" where there is nothing to say."""

    about: str

    def run(self, load: Load) -> Run:
        """Compute the whole load, all of whose requests are there from the beginning."""
        ...

    def stop(self) -> None: ...


def nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Contender:
    """prepare: what is done before its start is timed."""

    name: str
    start: Callable[[], Player]
    prepare: Callable[[], object] = nothing


@dataclass(frozen=True, slots=True)
class Failed:
    told: str


class Apart:
    """A player in a process of its own. `start` must be picklable: a function of a module, or a partial."""

    def __init__(self, start: Callable[[], Player]) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(target=host, args=(start, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self.about: str = self._answer()

    def run(self, load: Load) -> Run:
        try:
            self._pipe.send(load)
        except OSError:
            pass  # it has ended; there is no answer
        return self._answer()

    def stop(self) -> None:
        if self._process.is_alive():
            self._pipe.send(None)
            self._process.join(timeout=60)

    def _answer(self) -> object:
        try:
            answer = self._pipe.recv()
        except EOFError:
            self._process.join()
            raise Lost(f"ended with code {self._process.exitcode}") from None
        if isinstance(answer, Failed):
            raise Lost(answer.told)
        return answer


def host(start: Callable[[], Player], pipe: Connection) -> None:
    """The other process: start, compute what comes, stop at None."""
    try:
        player = start()
        pipe.send(player.about)
        while (load := pipe.recv()) is not None:
            pipe.send(player.run(load))
        player.stop()
    except Exception:
        pipe.send(Failed(traceback.format_exc()))
