"""Errands: work that is no sequence but needs the engine's thread; done a step a turn, between the others',
and in no more than half of the time.

The work is a generator: it yields after each step and returns its result. Knows neither what it computes nor
who waits for it.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from inference.engine.step import short_of_memory
from inference.errors import Internal, ServerError

log = logging.getLogger(__name__)

T = TypeVar("T")
Work = Generator[None, None, T]

ABREAST = 4  # errands that take turns; more wait until one is done, for each may hold memory of its own


@dataclass(slots=True, eq=False)
class Errand(Generic[T]):
    """`future` gets what `work` returns, or the ServerError it ends with; cancelling it ends the work.

    over  called with the future on the engine's thread, once, when the work has ended in whatever way
    """

    work: Work[T]
    over: Callable[[Future[T]], None] = lambda future: None
    future: Future[T] = field(default_factory=Future)

    def step(self) -> bool:
        """Do its next step; returns whether there is another."""
        if self.future.cancelled():
            self._end()
            return False
        try:
            next(self.work)
        except StopIteration as done:
            with suppress(InvalidStateError):  # cancelled meanwhile
                self.future.set_result(done.value)
            self._end()
        except Exception as error:
            self.fail(told(error))
        else:
            return True
        return False

    def fail(self, error: ServerError) -> None:
        with suppress(InvalidStateError):
            self.future.set_exception(error)
        self._end()

    def _end(self) -> None:
        self.work.close()
        self.over(self.future)


class Errands:
    """Those that are not done, in the order of their turns."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._queue: deque[Errand[Any]] = deque()
        self._clock = clock
        self._rested = 0.0

    def __len__(self) -> int:
        return len(self._queue)

    def enter(self, errand: Errand[Any]) -> None:
        self._queue.append(errand)

    def turn(self, shares: bool = False) -> None:
        """A step of the one whose turn it is.

        shares  others use the thread as well: between steps they have it for as long as the last one took
        """
        began = self._clock()
        if not self._queue or (shares and began < self._rested):
            return
        errand = self._queue[0]
        goes_on = errand.step()
        now = self._clock()
        self._rested = now + (now - began)
        self._queue.popleft()
        if goes_on:
            self._queue.insert(ABREAST - 1, errand)

    def close(self, error: ServerError) -> None:
        """End all with error."""
        while self._queue:
            self._queue.popleft().fail(error)


def told(error: Exception) -> ServerError:
    """What the caller is told of an error of the work."""
    if isinstance(error, ServerError):
        return error
    log.exception("errand failed", exc_info=error)
    if short_of_memory(error):
        return Internal("the server has too little memory for this request")
    return Internal("the model failed on this request")
