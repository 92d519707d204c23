"""Decides which request is executed next: each run in the order of its seq_ids, the runs in turn.

One thread owns the queues and never waits long; another one executes. Other threads send functions.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path

from inference.errors import NotFound, short
from tuning.commands import Commands
from tuning.runs.executor import RunExecutor
from tuning.runs.paths import session_of
from tuning.runs.promise import Promise
from tuning.runs.run_queue import (
    CREATION,
    LOST,
    MAX_GAP_BYTES,
    QueuedRequest,
    RunQueue,
    limit_results,
    refuse_when_full,
)
from tuning.runs.saved_queues import restore_queues, save_queues
from tuning.runs.types import CreateRun, Failure, RunInfo, RunRequest, RunResult

TICK_S = 1.0
CLEAN_UP_S = 30.0
SHUTDOWN_S = 20.0  # for the trainer to finish a micro-batch, and to write the runs to disk
INTERRUPT_S = 0.5  # a request that has just begun may not hear of it

log = logging.getLogger(__name__)


class RunScheduler:
    """Queues and threads of all runs.

    runs      those of earlier servers
    file      for what a stopped server keeps of its queues
    clean_up  is executed once in a while, between two requests; returns the ids of sessions that are removed
    """

    def __init__(
        self,
        executor: RunExecutor,
        runs: Iterable[RunInfo],
        file: Path,
        clean_up: Callable[[], Collection[str]],
    ) -> None:
        self._file = file
        self._executor, self._clean_up = executor, clean_up
        self._queues = {run.id: RunQueue(run.id, run.next_seq_id, is_restored=True) for run in runs}
        restore_queues(file, self._queues)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="trainer")
        self._commands = Commands()
        self._is_busy = False
        self._thread = threading.Thread(target=self._work, name="runs", daemon=True)
        self._thread.start()

    def create(self, run_id: str, request: CreateRun) -> Promise:
        """The promise of the run's creation: the same one for the same id."""
        return self._commands.call(self._create, run_id, request)

    def submit(self, run_id: str, seq_id: int, request: RunRequest) -> Promise:
        """Raises NotFound, BadRequest for a seq_id that is far ahead, and Overloaded."""
        return self._commands.call(self._submit, run_id, seq_id, request)

    def promise(self, run_id: str, seq_id: int) -> Promise:
        """Raises NotFound."""
        return self._commands.call(self._find_promise, run_id, seq_id)

    def num_waiting(self) -> int:
        """Requests that have not begun."""
        return sum(len(run_queue.waiting) for run_queue in list(self._queues.values()))

    def execute(self, task: Callable[[], None]) -> None:
        """Execute a task on the thread of the executor, between two requests. Its failure is logged."""
        self._worker.submit(run_logged, task)

    def close(self) -> None:
        """End after the request that is being executed, or kill the trainer if it takes too long."""
        if self._commands.is_closed:
            return
        self._commands.close()
        self._thread.join()
        self._end_trainer()
        self._commands.run()  # the end of the last request
        save_queues(self._file, self._queues.values())

    def _end_trainer(self) -> None:
        """Interrupt what is executed; kill the trainer if it does not end in time."""
        residents, deadline = self._executor.residents, time.monotonic() + SHUTDOWN_S
        ending = self._worker.submit(residents.close)
        while not wait([ending], INTERRUPT_S).done and time.monotonic() < deadline:
            residents.interrupt()
        if not ending.done():
            residents.kill()
        self._worker.shutdown()

    def _work(self) -> None:
        next_tick = next_clean_up = time.monotonic()
        while not self._commands.is_closed:
            self._commands.run(TICK_S)
            if time.monotonic() >= next_tick:
                self._visit_queues()
                next_tick = time.monotonic() + TICK_S
            if time.monotonic() >= next_clean_up:
                self.execute(self._clean)
                next_clean_up = time.monotonic() + CLEAN_UP_S
            self._start_next()
        self._commands.run()

    def _create(self, run_id: str, request: CreateRun) -> Promise:
        if run_id not in self._queues:
            self._queues[run_id] = RunQueue(run_id, CREATION)
        return self._queues[run_id].add(CREATION, request)

    def _submit(self, run_id: str, seq_id: int, request: RunRequest) -> Promise:
        run_queue = self._find(run_id)
        refuse_when_full(self._queues.values(), run_queue, seq_id)
        others = [each for each in self._queues.values() if each.gap_bytes and each is not run_queue]
        return run_queue.add(seq_id, request, MAX_GAP_BYTES // (1 + len(others)))

    def _find_promise(self, run_id: str, seq_id: int) -> Promise:
        run_queue = self._find(run_id)
        promise = run_queue.promises.get(seq_id)
        if promise is None and run_queue.is_restored and run_queue.is_in_reach(seq_id):
            return run_queue.add_lost(seq_id, self._executor.describe_loss(run_id) or LOST)
        if promise is None:
            is_over = seq_id < run_queue.next_seq_id
            reason = ": its result was not fetched in time" if is_over else ""
            raise NotFound(f"there is no request {short(f'{run_id}:{seq_id}')}{reason}")
        return promise

    def _find(self, run_id: str) -> RunQueue:
        if run_id not in self._queues:
            raise NotFound(f"there is no training run {short(run_id)}")
        return self._queues[run_id]

    def _start_next(self) -> None:
        """Hand the executor a request of the run that has waited longest, if it is idle."""
        ready = next((each for each in self._queues.values() if each.is_ready), None)
        if self._is_busy or self._commands.is_closed or ready is None:
            return
        self._queues[ready.run_id] = self._queues.pop(ready.run_id)  # behind all others
        queued, self._is_busy = ready.take(), True
        future = self._worker.submit(self._executor.execute, ready.run_id, queued.seq_id, queued.request)
        future.add_done_callback(lambda done: self._commands.send(partial(self._end, ready, queued, done)))

    def _end(
        self, run_queue: RunQueue, queued: QueuedRequest, done: "Future[RunResult | Failure | None]"
    ) -> None:
        self._is_busy = False
        result = done.result()
        if result is None:
            run_queue.put_back(queued)
        else:
            run_queue.resolve(queued.seq_id, queued.promise, result)
            limit_results(self._queues.values())

    def _clean(self) -> None:
        """On the thread of the executor."""
        session_ids = self._clean_up()
        if session_ids:
            self._commands.send(partial(self._remove_queues, session_ids))

    def _remove_queues(self, session_ids: Collection[str]) -> None:
        for run_id in [run_id for run_id in self._queues if session_of(run_id) in session_ids]:
            del self._queues[run_id]

    def _visit_queues(self) -> None:
        for run_queue in self._queues.values():
            run_queue.fail_gap()
            run_queue.remove_expired()


def run_logged(task: Callable[[], None]) -> None:
    try:
        task()
    except Exception:  # the top of the thread: the next time may go better
        log.exception("%s failed", task)
