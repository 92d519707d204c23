"""The queue of batches: one thread checks their files, starts their requests, and writes the answers.

Other threads send it functions. What it must not forget is in the database and in the result files: after the
death of the server, each batch goes on behind its last result.
"""

import logging
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from api.batches.batch_run import INPUT_FILE, BatchRun, RunningRequest
from api.batches.finished_files import store_results
from api.batches.input_file import InputRules, LineRequest, summarize_input
from api.batches.request_runner import LineAnswer, RequestRunner
from api.batches.store import BatchConflict, find_batch, update_batch, with_changes
from api.batches.types import UNFINISHED, BatchError, BatchJob, RequestCounts, Status
from inference.database import Database, StoreFailed
from inference.errors import named_error
from inference.process.full_disk import is_disk_full
from inference.process.memory.memory_shortage import is_memory_shortage
from tuning.commands import Commands
from tuning.store.files import Files

MAX_RUNNING_BYTES = 64 << 20  # of the bodies of running requests, and one more
RETRY_S = 5.0  # after the disk was full, for example
UNEXPECTED = BatchError(
    "server_error", "an unexpected error occurred: search the server's log for the id of the batch"
)

log = logging.getLogger(__name__)

MakeRules = Callable[[str], InputRules]  # for an endpoint


class BatchQueue:
    """The unfinished batches, and the thread that works on them.

    make_rules  of the input files for an endpoint
    num_slots   requests that run at the same time, which the batches share equally
    unfinished  batches of a former start
    """

    def __init__(
        self,
        database: Database,
        folder: Path,
        files: Files,
        make_rules: MakeRules,
        num_slots: int,
        unfinished: Sequence[BatchJob],
    ) -> None:
        self._database = database
        self._folder = folder
        self._files = files
        self._make_rules = make_rules
        self._num_slots = num_slots
        self._new: deque[BatchJob] = deque(unfinished)
        self._runs: deque[BatchRun] = deque()  # the first one starts the next request
        self._answered: deque[tuple[BatchRun, LineRequest, LineAnswer]] = deque()
        self._commands = Commands()
        self._runner: RequestRunner
        self._thread = threading.Thread(target=self._work, name="batches", daemon=True)

    def start(self, runner: RequestRunner) -> None:
        """Begin to work."""
        self._runner = runner
        self._thread.start()

    def add(self, batch: BatchJob) -> None:
        """Work on a new batch."""
        self._commands.send(partial(self._new.append, batch))

    def cancel(self, batch_id: str) -> BatchJob:
        """End the requests of a batch that run. Raises BatchConflict, Unavailable."""
        return self._commands.call(self._cancel, batch_id)

    def stop(self) -> None:
        """End the running requests, and the thread; returns at once."""
        self._commands.close()

    def close(self) -> None:
        """As `stop`, and wait for the end."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        while not self._commands.is_closed:
            try:
                self._advance()
            except Exception as error:
                if not is_temporary(error):
                    raise
                log.error("the batches wait: %s", named_error(error))
                self._commands.run(RETRY_S)
            else:
                self._commands.run(self._seconds_to_wait())
        self._commands.run()
        with suppress(StoreFailed, OSError):
            self._record_answers()
        for run in self._runs:
            run.close()

    def _advance(self) -> None:
        while self._new:
            self._guard(self._new[0], self._open, self._new[0])
            self._new.popleft()
        self._record_answers()
        for run in list(self._runs):
            self._guard(run.batch, self._follow, run)
        self._start_requests()

    def _record_answers(self) -> None:
        while self._answered:
            run, request, line_answer = self._answered[0]
            if run in self._runs:  # an error may have ended it meanwhile
                self._guard(run.batch, run.record, request, line_answer, time.monotonic())
            self._answered.popleft()

    def _guard(self, batch: BatchJob, function: Callable[..., None], *args: object) -> None:
        """Call a function. An error of ours fails the batch, and no other one; what was answered stays."""
        try:
            function(*args)
        except Exception as error:
            if is_temporary(error):
                raise
            log.exception("batch=%s", batch.id)
            file_ids: Mapping[str, str | None] = {}
            for run in [run for run in self._runs if run.batch.id == batch.id]:
                with suppress(OSError):
                    file_ids = store_results(self._files, run)
            self._end(batch, "failed", errors=(UNEXPECTED,), **file_ids)
            self._remove(batch.id)

    def _open(self, batch: BatchJob) -> None:
        """Check the file of a new batch, and run its requests."""
        if batch.status == "validating":
            batch = self._validate(batch)
        if batch.status in UNFINISHED:
            self._runs.append(BatchRun(batch, self._folder / batch.id))

    def _validate(self, batch: BatchJob) -> BatchJob:
        rules = self._make_rules(batch.order.endpoint)
        summary = summarize_input(self._folder / batch.id / INPUT_FILE, rules)
        if summary.errors:
            return self._end(batch, "failed", errors=summary.errors)
        counts = RequestCounts(summary.num_requests)
        return self._change(batch, status="in_progress", counts=counts, model=summary.model)

    def _follow(self, run: BatchRun) -> None:
        """Store how far a batch is, and end it when it is answered, cancelled or expired."""
        batch, results = run.batch, run.results
        counts = results.counts(batch.counts.total)
        if counts != batch.counts:
            run.batch = batch = self._change(batch, counts=counts, usage=results.usage)
        if batch.status != "cancelling" and not run.is_answered and time.time() >= batch.expires:
            run.cancel()
            run.expire()
        if batch.status == "cancelling":
            self._finish(run, "cancelled")
        elif run.is_answered:
            self._finish(run, "expired" if results.has_expired else "completed")

    def _finish(self, run: BatchRun, status: Status) -> None:
        """Make files of the results. May be repeated after it has failed."""
        if run.batch.status == "in_progress":
            run.batch = self._change(run.batch, status="finalizing")
        run.results.sync()
        file_ids = store_results(self._files, run)
        counts = run.results.counts(run.batch.counts.total)
        self._end(run.batch, status, counts=counts, usage=run.results.usage, **file_ids)
        self._remove(run.batch.id)

    def _end(self, batch: BatchJob, status: Status, **changes: object) -> BatchJob:
        batch = self._change(batch, status=status, **changes)
        shutil.rmtree(self._folder / batch.id, ignore_errors=True)
        return batch

    def _remove(self, batch_id: str) -> None:
        """Forget the run of a batch, if it has one."""
        for run in [run for run in self._runs if run.batch.id == batch_id]:
            run.close()
            self._runs.remove(run)

    def _change(self, batch: BatchJob, **changes: object) -> BatchJob:
        batch = with_changes(batch, **changes)
        self._database.run(update_batch, batch)
        if "status" in changes:
            log.info("batch=%s status=%s requests=%d", batch.id, batch.status, batch.counts.total)
        return batch

    def _start_requests(self) -> None:
        """Start as many requests as there are slots, one of each batch in turn."""
        now_s = time.monotonic()
        ready = deque(run for run in self._runs if run.retry_at <= now_s)
        for run in ready:
            run.retry_at = 0.0
        while ready and self._has_room():
            run = ready.popleft()
            self._guard(run.batch, self._start_request, run, ready)

    def _has_room(self) -> bool:
        if self._commands.is_closed:
            return False
        num_running = sum(len(run.running) for run in self._runs)
        num_bytes = sum(run.num_running_bytes for run in self._runs)
        return num_running < self._num_slots and num_bytes < MAX_RUNNING_BYTES

    def _start_request(self, run: BatchRun, ready: deque[BatchRun]) -> None:
        """Start the next request of a batch, if there is one. The batch is then the last one in turn."""
        request = run.next_request()
        if request is None:
            return

        def receive(line_answer: LineAnswer) -> None:
            self._commands.send(partial(self._answered.append, (run, request, line_answer)))

        order = run.batch.order
        cancel = self._runner.start(request.body, order.endpoint, order.creator, receive)
        run.running[request.number] = RunningRequest(request, cancel)
        self._runs.remove(run)
        self._runs.append(run)
        ready.append(run)

    def _seconds_to_wait(self) -> float | None:
        """Until there is something to do, if nothing arrives; None: there will be nothing."""
        ends = [run.batch.expires - time.time() for run in self._runs]
        ends += [run.retry_at - time.monotonic() for run in self._runs if run.retry_at]
        return max(0.0, min(ends)) if ends else None

    def _cancel(self, batch_id: str) -> BatchJob:
        for index, batch in enumerate(self._new):
            if batch.id == batch_id:
                self._new[index] = batch = self._change(batch, status="cancelling")
                return batch
        for run in self._runs:
            if run.batch.id == batch_id:
                if run.batch.status == "in_progress":
                    run.cancel()
                    run.batch = self._change(run.batch, status="cancelling")
                return run.batch
        batch = self._database.run(find_batch, batch_id)
        if batch.status == "cancelled":
            return batch
        raise BatchConflict(f"Cannot cancel a batch with status '{batch.status}'.")


def is_temporary(error: Exception) -> bool:
    """Whether the next turn may do better: the disk is full, for example, or memory is short."""
    return isinstance(error, StoreFailed) or is_memory_shortage(error) or is_disk_full(error)
