"""The interface of the engines to measure: an engine starts, computes loads and stops.

To add an engine, write an EngineUnderTest and list it in a workload's specs. An engine that uses this Python
environment runs in a SpawnedEngine, so that engines do not share threads, memory or patches of transformers.
"""

import multiprocessing
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol

from scripts.bench.load import Load, Run


class EngineFailed(SystemExit):
    """An engine did not start, ended early or gave a wrong answer; the message says what happened."""


class EngineUnderTest(Protocol):
    """An engine with a model loaded. description: a few words on how it computes; may be empty."""

    description: str

    def run(self, load: Load) -> Run:
        """Compute the load; all its requests arrive at the same time. Raises EngineFailed."""
        ...

    def stop(self) -> None: ...


def do_nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """How to start an engine. prepare: what to do before the timed start, such as converting files."""

    name: str
    start: Callable[[], EngineUnderTest]
    prepare: Callable[[], object] = do_nothing


@dataclass(frozen=True, slots=True)
class RemoteFailure:
    """An exception in the spawned process. message: its traceback."""

    message: str


class SpawnedEngine:
    """An EngineUnderTest in a spawned process. `start` must be picklable: a function or a partial of one."""

    def __init__(self, start: Callable[[], EngineUnderTest]) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pipe, child_end = spawn.Pipe()
        self._process = spawn.Process(target=run_engine, args=(start, child_end), daemon=True)
        self._process.start()
        child_end.close()
        self.description: str = self._receive()

    def run(self, load: Load) -> Run:
        try:
            self._pipe.send(load)
        except OSError:
            pass  # the process has ended; _receive raises
        return self._receive()

    def stop(self) -> None:
        if self._process.is_alive():
            self._pipe.send(None)
            self._process.join(timeout=60)

    def _receive(self) -> Any:
        try:
            result = self._pipe.recv()
        except EOFError:
            self._process.join()
            raise EngineFailed(f"ended with code {self._process.exitcode}") from None
        if isinstance(result, RemoteFailure):
            raise EngineFailed(result.message)
        return result


def run_engine(start: Callable[[], EngineUnderTest], pipe: Connection) -> None:
    """In the spawned process: start the engine, compute each load that is received, and stop at None."""
    try:
        engine = start()
        pipe.send(engine.description)
        while (load := pipe.recv()) is not None:
            pipe.send(engine.run(load))
        engine.stop()
    except Exception:
        pipe.send(RemoteFailure(traceback.format_exc()))
