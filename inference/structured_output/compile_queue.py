"""Compiles grammars one after another on a thread of their own: together they use one core.

Requests wait for their grammar here and occupy no thread of the HTTP server. Knows no grammars.
"""

import logging
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from inference.drain_rate import RecentDurations, overloaded
from inference.errors import Internal, Overloaded, ServerError
from inference.structured_output.grammar_checker import CheckAbandoned

T = TypeVar("T")

MAX_WAIT_S = 10.0
UNKNOWN_S = 0.5  # of one grammar, before the first has been compiled
MIN_S = 0.001

log = logging.getLogger(__name__)


class CompileJob(Generic[T]):
    """One piece of work. `future` gets its result, or a ServerError; it is cancelled if abandoned in time."""

    def __init__(self, work: Callable[[Callable[[], bool]], T], overloaded: Callable[[], Overloaded]) -> None:
        """`overloaded` makes the error of a job that has waited too long."""
        self.future: Future[T] = Future()
        self._overloaded = overloaded
        self._work = work
        self.deadline = time.monotonic() + MAX_WAIT_S
        self._is_abandoned = False

    def abandon(self) -> None:
        """The request has been cancelled. From any thread."""
        self._is_abandoned = True
        self.future.cancel()

    def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            self.future.set_result(self._run_work())
        except ServerError as error:
            self.future.set_exception(error)
        except CheckAbandoned:
            self.future.set_exception(Internal("the request was abandoned"))
        except BaseException:  # the thread serves other requests too
            log.exception("event=compile_failed")
            self.future.set_exception(Internal("the grammar could not be compiled"))

    def _run_work(self) -> T:
        if time.monotonic() > self.deadline:
            raise self._overloaded()
        return self._work(lambda: self._is_abandoned)


class CompileQueue:
    def __init__(self) -> None:
        self._jobs: SimpleQueue[CompileJob[Any]] = SimpleQueue()
        self._deadlines: dict[Future[Any], float] = {}  # of the unfinished jobs, in their order
        self._starts: list[float] = []  # of the job that runs
        self._durations = RecentDurations(UNKNOWN_S)
        threading.Thread(target=self._run, name="grammars", daemon=True).start()

    def submit(self, work: Callable[[Callable[[], bool]], T]) -> CompileJob[T]:
        """Run `work` after all work before it. Its argument tells whether the request has been abandoned.

        Raises Overloaded if the work before it is expected to take more than MAX_WAIT_S.
        """
        if self._expected_wait_s() > MAX_WAIT_S:
            raise self._overloaded()
        job = CompileJob(partial(self._measure, work), self._overloaded)
        self._deadlines[job.future] = job.deadline
        job.future.add_done_callback(lambda future: self._deadlines.pop(future, None))
        self._jobs.put(job)
        return job

    def _measure(self, work: Callable[[Callable[[], bool]], T], is_abandoned: Callable[[], bool]) -> T:
        start_s = time.monotonic()
        self._starts.append(start_s)
        try:
            return work(is_abandoned)
        finally:
            self._starts.remove(start_s)
            self._durations.record(time.monotonic() - start_s)

    def _expected_wait_s(self) -> float:
        """Seconds that a further job would wait."""
        starts = tuple(self._starts)
        num_waiting = max(0, len(self._deadlines) - len(starts))
        return self._durations.first_end_s(starts) + num_waiting * self._durations.mean_s

    def _overloaded(self) -> Overloaded:
        """The error of a refused job: after the seconds that it names, a further one is accepted.

        By then, the jobs that are too many have been done, or have waited too long and left.
        """
        excess_s, deadlines = self._expected_wait_s() - MAX_WAIT_S, list(self._deadlines.values())
        num_excess = math.ceil(excess_s / max(MIN_S, self._durations.mean_s))
        leave_s = [deadline - time.monotonic() for deadline in deadlines[max(0, num_excess - 1) :]]
        return overloaded(None, min([excess_s, *leave_s[:1]]))

    def _run(self) -> None:
        while True:
            self._jobs.get().run()
