"""An unfinished batch whose requests are run: what was answered, what runs, and what is still to run."""

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from api.batches.input_file import LineRequest, read_requests
from api.batches.request_runner import LineAnswer
from api.batches.result_files import ResultFiles
from api.batches.types import BatchJob

INPUT_FILE = "input.jsonl"
RETRIED_STATUSES = frozenset((429, 503))  # the queue is full, or the model is not ready
RETRY_S = 5.0  # before a request is tried again whose answer does not say when


class RunningRequest(NamedTuple):
    """cancel: ends it; its answer is then not received."""

    request: LineRequest
    cancel: Callable[[], object]


class BatchRun:
    """The requests of one batch. Reads what a former run has answered. Raises OSError.

    folder    of its files
    running   the running requests by the numbers of their lines
    retry_at  time.monotonic() before which no request starts; 0: one may start now
    """

    def __init__(self, batch: BatchJob, folder: Path) -> None:
        self.batch = batch
        self.folder = folder
        self.results = ResultFiles(folder, batch.key)
        self.running: dict[int, RunningRequest] = {}
        self.retry_at = 0.0
        self._unstarted: Iterator[LineRequest] = self._unanswered()
        self._refused: deque[LineRequest] = deque()

    def next_request(self) -> LineRequest | None:
        """The next request to start; None: all have started."""
        return self._refused.popleft() if self._refused else next(self._unstarted, None)

    @property
    def num_running_bytes(self) -> int:
        """Bytes of the bodies of the running requests."""
        return sum(len(each.request.body) for each in self.running.values())

    @property
    def is_answered(self) -> bool:
        """Whether each request has a result."""
        return len(self.results.answered) >= self.batch.counts.total

    def record(self, request: LineRequest, line_answer: LineAnswer, now_s: float) -> None:
        """Write the result of a running request, or have it run again. Raises OSError; then it still runs."""
        if request.number not in self.running:
            return  # it was cancelled
        if line_answer.status in RETRIED_STATUSES:
            self._refused.append(request)
            retry_s = RETRY_S if line_answer.retry_after_s is None else line_answer.retry_after_s
            self.retry_at = now_s + retry_s
        else:
            self.results.add(request, line_answer)
        del self.running[request.number]

    def cancel(self) -> None:
        """End the running requests; their answers are dropped."""
        for each in self.running.values():
            each.cancel()
        self.running.clear()

    def expire(self) -> None:
        """Write that the requests without a result were not run. Raises OSError; may be repeated."""
        for request in self._unanswered():
            self.results.add_expired(request)

    def close(self) -> None:
        self.cancel()
        self.results.close()

    def _unanswered(self) -> Iterator[LineRequest]:
        for request in read_requests(self.folder / INPUT_FILE):
            if request.number not in self.results.answered:
                yield request
