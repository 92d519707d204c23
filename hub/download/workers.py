"""Worker threads that each run one job at a time."""

import time
from collections.abc import Callable, Hashable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

from hub.download.http_range import DownloadStopped

Job = TypeVar("Job", bound=Hashable)
JOIN_S = 0.5  # seconds to finish a write; a thread that waits for the network writes nothing more


class DownloadWorkers(Generic[Job]):
    """`running`: jobs submitted whose results were not fetched. Only the submitting thread may use it."""

    def __init__(self, num_threads: int, run_job: Callable[[Job], None]) -> None:
        self.running: set[Job] = set()
        self.run_job = run_job
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.results: SimpleQueue[tuple[Job, BaseException | None]] = SimpleQueue()
        self.threads = [Thread(target=self.work, daemon=True) for _ in range(num_threads)]
        for thread in self.threads:
            thread.start()

    def submit(self, job: Job) -> None:
        self.running.add(job)
        self.jobs.put(job)

    def next_result(self, timeout_s: float) -> tuple[Job, BaseException | None] | None:
        """A finished job and its error, if any; None if no job ends in time."""
        try:
            job, error = self.results.get(timeout=timeout_s)
        except Empty:
            return None
        self.running.discard(job)
        return job, error

    def shutdown(self) -> None:
        """Stop the threads. The shared state must be stopped before; no thread writes after this."""
        for _ in self.threads:
            self.jobs.put(None)
        deadline = time.monotonic() + JOIN_S
        for thread in self.threads:
            thread.join(max(deadline - time.monotonic(), 0))

    def work(self) -> None:
        while (job := self.jobs.get()) is not None:
            try:
                self.run_job(job)
                self.results.put((job, None))
            except DownloadStopped:
                return
            except BaseException as error:
                self.results.put((job, error))
