"""Threads that do one job at a time each. Knows nothing of what a job is."""

import time
from collections.abc import Callable, Hashable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

from checks.fetch.line import Stopped

Job = TypeVar("Job", bound=Hashable)
JOIN_S = 0.5  # that the threads have to end what it writes; one that waits for the network writes no more


class Crew(Generic[Job]):
    """`running`: the jobs given and not yet returned. Belongs to the thread that gives them."""

    def __init__(self, num_threads: int, do: Callable[[Job], None]) -> None:
        self.running: set[Job] = set()
        self.do = do
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.results: SimpleQueue[tuple[Job, BaseException | None]] = SimpleQueue()
        self.threads = [Thread(target=self.work, daemon=True) for _ in range(num_threads)]
        for thread in self.threads:
            thread.start()

    def give(self, job: Job) -> None:
        self.running.add(job)
        self.jobs.put(job)

    def result(self, timeout_s: float) -> tuple[Job, BaseException | None] | None:
        """A job that has ended, and what it raised; None where none has."""
        try:
            job, error = self.results.get(timeout=timeout_s)
        except Empty:
            return None
        self.running.discard(job)
        return job, error

    def dismiss(self) -> None:
        """The line has been stopped: nobody writes after this."""
        for _ in self.threads:
            self.jobs.put(None)
        end = time.monotonic() + JOIN_S
        for thread in self.threads:
            thread.join(max(end - time.monotonic(), 0))

    def work(self) -> None:
        while (job := self.jobs.get()) is not None:
            try:
                self.do(job)
                self.results.put((job, None))
            except Stopped:
                return
            except BaseException as error:
                self.results.put((job, error))
