"""Rank 0: starts the other ranks, tells them what to compute, and notices when one of them is gone.

Knows processes, pipes and orders; not what is computed.
"""

import atexit
import logging
import multiprocessing
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from inference.errors import Unavailable
from inference.model import group
from inference.model.fit import Fitted
from inference.model.load import Loaded
from inference.model.ranks.follower import Recipe, follow, seat_of
from inference.model.ranks.orders import Answer, Failed, Order, Ready, Resume

log = logging.getLogger(__name__)

READY_S = 60.0  # how much later than rank 0 the others may be ready
ALIKE_S = 5.0  # how long after a failure of rank 0 the others may take to fail alike
MOMENT_S = 1.0  # for one that fails to say why
CLOSING_S = 5.0  # what the others have to end by themselves


class Ranks:
    """The other ranks, each in a process. Orders are for one thread to give; `close` is for any.

    lost  why they can compute no more; empty while they can
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.lost = ""
        self.processes: list[BaseProcess] = []
        self.pipes: list[Connection] = []
        self._tell: Callable[[str], None] = lambda told: None
        self._closing = False
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._store = group.meeting(recipe.count)
        atexit.register(self.close)  # before multiprocessing waits for its children

    def start(self) -> tuple[Loaded, Fitted]:
        """Start the others, and load the model together. Raises ServerError; nothing is left running then."""
        recipe = self.recipe
        try:
            for rank in range(1, recipe.count):
                self._begin(rank)
            threading.Thread(target=self._watch, name="ranks", daemon=True).start()
            group.join(self._store, 0, recipe.count, recipe.device)
            loaded, fitted = recipe.follow()
            self._check(seat_of(fitted))
        except BaseException as error:
            told = self._failure() if isinstance(error, Exception) else ""
            self.close()
            if told:
                raise Unavailable(told) from error
            raise
        log.info("ranks=%d device=%s", recipe.count, recipe.device)
        return loaded, fitted

    def watch_with(self, tell: Callable[[str], None]) -> None:
        """Have `tell` called, from another thread, once nothing can be computed any more."""
        self._tell = tell
        if self.lost:
            tell(self.lost)

    def send(self, order: Order) -> None:
        """Give every other rank this order. Raises Unavailable once one is lost."""
        for rank, pipe in enumerate(self.pipes, 1):
            try:
                pipe.send(order)
            except OSError:
                self._lose(f"rank {rank} takes no more orders")
        if self.lost:
            raise Unavailable(self.lost)

    def settle(self) -> None:
        """Rank 0 has failed: go on if all others have, too. One that has not waits for rank 0 in vain.

        Raises Unavailable then.
        """
        for rank, pipe in enumerate(self.pipes, 1):
            if not (pipe.poll(ALIKE_S) and received(pipe)):
                self._lose(f"rank 0 failed, and rank {rank} did not")
                raise Unavailable(self.lost)
        self.send(Resume())

    def close(self) -> None:
        """End the others; those that do not within a few seconds are killed. Idempotent."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.join(0 if self.lost else CLOSING_S)
            process.kill()
            process.join()
        group.leave()
        atexit.unregister(self.close)

    def _begin(self, rank: int) -> None:
        """Start a rank: a new process, for a fork of this one would lack its threads."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        arguments = (rank, self._store.port, self.recipe, theirs)
        process = context.Process(target=follow, args=arguments, name=f"rank {rank}", daemon=True)
        process.start()
        theirs.close()
        self.processes.append(process)
        self.pipes.append(ours)

    def _check(self, seat: tuple[object, ...]) -> None:
        """Raise Unavailable unless every rank is ready and has this seat, as rank 0 has."""
        for rank, pipe in enumerate(self.pipes, 1):
            answer = received(pipe) if pipe.poll(READY_S) else None
            if answer is None:
                raise Unavailable(f"rank {rank} was not ready {READY_S:.0f} s after rank 0")
            if answer != Ready(seat):
                raise Unavailable(f"rank {rank} cannot run the model as rank 0 does, {seat}: {answer}")

    def _failure(self) -> str:
        """What kept another rank from starting, if something did."""
        for rank, pipe in enumerate(self.pipes, 1):
            answer = received(pipe) if pipe.poll(MOMENT_S) else None
            if isinstance(answer, Failed):
                return f"rank {rank} cannot start: {answer.told}"
        return self.lost

    def _watch(self) -> None:
        """Say when the first of the others ends that was not told to. A thread's top."""
        ended = wait([process.sentinel for process in self.processes])
        rank, process = next(
            (rank, process) for rank, process in enumerate(self.processes, 1) if process.sentinel in ended
        )
        with self._lock:
            if self._closing:
                return
            process.join(MOMENT_S)
        self._lose(f"rank {rank} has ended with exit code {process.exitcode}", certain=True)

    def _lose(self, why: str, certain: bool = False) -> None:
        """The first reason stands. One that is not certain waits a moment for `_watch` to know better."""
        if not certain and self._over.wait(MOMENT_S):
            return
        with self._lock:
            if self._closing or self.lost:
                return
            self.lost = f"{why}: the server must be restarted"
        self._over.set()
        log.error("%s", self.lost)
        self._tell(self.lost)


def received(pipe: Connection) -> Answer | None:
    """The answer that stands in a pipe; None where it was closed."""
    try:
        return pipe.recv()
    except (EOFError, OSError):
        return None
