"""Background tasks: work other than sequences on the engine's thread, in steps between the model's steps.

Background tasks take at most half of the thread's time while sequences run. The work is a generator that
yields after each step and returns its result. Knows neither what a task computes nor its caller.
"""

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from inference.engine.step_result import MODEL_FAILED
from inference.errors import Internal, ServerError
from inference.process.memory.memory_shortage import TOO_LITTLE_MEMORY, is_memory_shortage

log = logging.getLogger(__name__)

T = TypeVar("T")
Work = Generator[None, None, T]

MAX_INTERLEAVED = 4  # tasks that take turns; the others wait, because a started task may allocate memory


@dataclass(slots=True, eq=False)
class BackgroundTask(Generic[T]):
    """A generator and the future of its result.

    work      the generator
    on_done   called once with the future, on the engine's thread, when the work has ended in any way
    deadline  time.monotonic() after which the task runs before all others: its work then ends by itself
    future    gets the return value of `work` or the ServerError that ended it; cancelling it ends the work
    """

    work: Work[T]
    on_done: Callable[[Future[T]], None] = lambda future: None
    deadline: float = math.inf
    future: Future[T] = field(default_factory=Future)

    def step(self) -> bool:
        """Run the next step; returns whether another one follows."""
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
            self.fail(to_server_error(error))
        else:
            return True
        return False

    def fail(self, error: ServerError) -> None:
        with suppress(InvalidStateError):
            self.future.set_exception(error)
        self._end()

    def _end(self) -> None:
        self.work.close()
        self.on_done(self.future)


class BackgroundQueue:
    """The unfinished background tasks.

    tasks  in the order of their turns
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.tasks: deque[BackgroundTask[Any]] = deque()
        self._clock = clock
        self._yield_until = 0.0

    def add(self, task: BackgroundTask[Any]) -> None:
        self.tasks.append(task)

    def step(self, share_time: bool = False) -> None:
        """Run one step of the first task, or of a task whose deadline has passed.

        share_time: sequences run too; do nothing until as much time has passed as the last background step
        took.
        """
        start_s = self._clock()
        if not self.tasks or (share_time and start_s < self._yield_until):
            return
        task = next((task for task in self.tasks if task.deadline <= start_s), self.tasks[0])
        has_more = task.step()
        now = self._clock()
        self._yield_until = now + (now - start_s)
        self.tasks.remove(task)
        if has_more:
            self.tasks.insert(MAX_INTERLEAVED - 1, task)

    def close(self, error: ServerError) -> None:
        """End all tasks with error."""
        while self.tasks:
            self.tasks.popleft().fail(error)


def to_server_error(error: Exception) -> ServerError:
    """The error reported to the caller of a background task."""
    if isinstance(error, ServerError):
        return error
    log.exception("background task failed", exc_info=error)
    return Internal(TOO_LITTLE_MEMORY if is_memory_shortage(error) else MODEL_FAILED)
