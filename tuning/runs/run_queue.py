"""The requests to one run, in the order of their seq_ids; a request that comes again is the same one.

Knows numbers, sizes and promises; not what a request does. Belongs to the thread of the runs.
"""

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import msgspec

from inference.errors import BadRequest, Overloaded
from inference.finding import format_size
from tuning.runs.promise import Promise
from tuning.runs.types import (
    Category,
    Failure,
    ForwardBackward,
    PassOutput,
    RejectedRequest,
    RunRequest,
    RunResult,
)

GAP_S = 120.0  # requests wait so long for one with a lower seq_id that has not arrived
MAX_GAP_BYTES = 10**9  # that the requests of all runs behind missing ones take
MAX_WAITING_BYTES = 2 * 10**9  # that all requests that wait take; clients send what is refused again
MAX_RESULT_BYTES = 256 << 20  # of the results of all runs that are kept for clients
RESULT_BYTES = 2048  # of a result without arrays, and of its promise
FULL_RETRY_S = 10.0  # a pass of a batch takes seconds
DATUM_BYTES = 608  # of a datum without tokens: its arrays' headers
ARRAY_BYTES = 128  # of an array without values
MAX_IN_FLIGHT = 100_000  # seq_ids from the next one on that a client may have sent
LOST = "the server was killed before it had executed this request: send it again"
CREATION = 0  # the seq_id of a run's creation


@dataclass(frozen=True, slots=True)
class QueuedRequest:
    """is_lost: it died with an earlier server, and is here to use up its seq_id."""

    seq_id: int
    request: RunRequest
    promise: Promise
    num_bytes: int = 0
    is_lost: bool = False


class RunQueue:
    """The requests to one run.

    next_seq_id     of the request that is to run next; those before it are done or running
    missing_seq_id  the first that has not arrived
    gap_bytes       that the requests behind it take
    result_bytes    that the results take which are kept
    is_restored     an earlier server has created the run, and may have been killed with requests to it
    """

    def __init__(self, run_id: str, next_seq_id: int = CREATION + 1, *, is_restored: bool = False) -> None:
        self.run_id, self.next_seq_id, self.is_restored = run_id, next_seq_id, is_restored
        self.missing_seq_id, self.gap_bytes = next_seq_id, 0
        self.result_bytes = 0
        self._sizes: dict[int, int] = {}  # of the results, by seq_id, the oldest result first
        self.promises: dict[int, Promise] = {}
        self.waiting: dict[int, QueuedRequest] = {}
        self.last_arrival = time.monotonic()

    def promise(self, seq_id: int) -> Promise:
        """The promise of this seq_id, perhaps a new one."""
        return self.promises.setdefault(seq_id, Promise(f"{self.run_id}:{seq_id}"))

    def add(self, seq_id: int, request: RunRequest, max_gap_bytes: int = MAX_GAP_BYTES) -> Promise:
        """Queue a request; its promise. A repeated one has the promise that it had.

        One that waits for a missing request is refused where those that wait take `max_gap_bytes`. Raises
        BadRequest for a seq_id that is far ahead: the run would have to go on behind it.
        """
        if seq_id in self.promises:
            return self.promises[seq_id]
        if not self.is_in_reach(seq_id):
            rule = f"must be below {self.next_seq_id + MAX_IN_FLIGHT}: the run is at {self.next_seq_id}"
            raise BadRequest("seq_id", rule, seq_id)
        promise = self.promise(seq_id)
        if seq_id < self.next_seq_id:
            message = f"seq_id {seq_id} is over, and its result gone: the run is at {self.next_seq_id}"
            category: Category = "server" if self.is_restored else "user"
            self.resolve(seq_id, promise, Failure(message=message, category=category))
            return promise
        num_bytes = bytes_of(request)
        if seq_id > self.missing_seq_id and self.gap_bytes + num_bytes > max_gap_bytes:
            request, num_bytes = self._refusal(num_bytes, max_gap_bytes), 0
        self._put(QueuedRequest(seq_id, request, promise, num_bytes))
        return promise

    def resolve(self, seq_id: int, promise: Promise, result: RunResult | Failure) -> None:
        """Give the promise of a request its result, which is kept for the client."""
        if self.promises.get(seq_id) is promise:
            self._sizes[seq_id] = bytes_of_result(result)
            self.result_bytes += self._sizes[seq_id]
        promise.resolve(result)

    def add_lost(self, seq_id: int, message: str = LOST) -> Promise:
        """The promise of a request that died with an earlier server: it fails, and uses up its seq_id."""
        if seq_id < self.next_seq_id:
            return self.add(seq_id, RejectedRequest(message=message))
        promise = self.promise(seq_id)
        self.resolve(seq_id, promise, Failure(message=message, category="server"))
        request = RejectedRequest(message=message, category="server")
        self._put(QueuedRequest(seq_id, request, Promise(promise.request_id), is_lost=True))
        return promise

    def is_in_reach(self, seq_id: int) -> bool:
        return seq_id < self.next_seq_id + MAX_IN_FLIGHT

    @property
    def waiting_bytes(self) -> int:
        return sum(queued.num_bytes for queued in self.waiting.values())

    @property
    def is_ready(self) -> bool:
        return self.next_seq_id in self.waiting

    def take(self) -> QueuedRequest:
        """The next request, which must be there."""
        queued = self.waiting.pop(self.next_seq_id)
        self.next_seq_id += 1
        return queued

    def put_back(self, queued: QueuedRequest) -> None:
        """The request that was taken last is the next one again."""
        self.next_seq_id = queued.seq_id
        self.waiting[queued.seq_id] = queued

    def fail_gap(self) -> None:
        """Fail what has waited GAP_S for a missing request: the run goes on behind it."""
        arrivals = [queued.seq_id for queued in self.waiting.values() if not queued.is_lost]
        if not arrivals or self.is_ready or time.monotonic() < self.last_arrival + GAP_S:
            return
        message = f"seq_id {self.next_seq_id} has not arrived within {GAP_S:.0f} s: send the batch again"
        self.next_seq_id = max(arrivals) + 1
        for seq_id in [seq_id for seq_id in self.waiting if seq_id < self.next_seq_id]:
            promise = self.waiting.pop(seq_id).promise
            self.resolve(seq_id, promise, Failure(message=message, category="user"))
        self.missing_seq_id, self.gap_bytes = self.next_seq_id, 0  # what is left are lost ones, without bytes
        self._find_missing()

    def remove_expired(self) -> None:
        """Forget results that nobody will fetch any more."""
        for seq_id in [seq_id for seq_id, promise in self.promises.items() if promise.is_expired]:
            self._forget(seq_id)

    def forget_oldest_results(self, num_bytes: int) -> int:
        """Forget results until they have freed so much, or none is left; returns the freed bytes."""
        before = self.result_bytes
        while self._sizes and before - self.result_bytes < num_bytes:
            self._forget(next(iter(self._sizes)))
        return before - self.result_bytes

    def _put(self, queued: QueuedRequest) -> None:
        self.last_arrival = time.monotonic()
        self.waiting[queued.seq_id] = queued
        self.gap_bytes += queued.num_bytes
        self._find_missing()

    def _find_missing(self) -> None:
        while self.missing_seq_id in self.waiting:
            self.gap_bytes -= self.waiting[self.missing_seq_id].num_bytes
            self.missing_seq_id += 1

    def _refusal(self, num_bytes: int, max_gap_bytes: int) -> RejectedRequest:
        size, limit = format_size(self.gap_bytes + num_bytes), format_size(max_gap_bytes)
        message = f"{size} would wait for seq_id {self.missing_seq_id}, at most {limit} may: send it first"
        return RejectedRequest(message=message)

    def _forget(self, seq_id: int) -> None:
        del self.promises[seq_id]
        self.result_bytes -= self._sizes.pop(seq_id)


def refuse_when_full(run_queues: Iterable[RunQueue], run_queue: RunQueue, seq_id: int) -> None:
    """Raise Overloaded while what waits in all queues takes MAX_WAITING_BYTES.

    A retry takes nothing, and the next request of a run must get in: it makes room for the others.
    """
    is_exempt = seq_id in run_queue.promises or seq_id == run_queue.next_seq_id
    if not is_exempt and sum(each.waiting_bytes for each in run_queues) >= MAX_WAITING_BYTES:
        raise Overloaded(FULL_RETRY_S)


def limit_results(run_queues: Collection[RunQueue]) -> None:
    """Forget results while those of all queues take more than MAX_RESULT_BYTES.

    The run whose results take most loses its oldest: a client that fetches none costs no other one its own.
    """
    excess = sum(each.result_bytes for each in run_queues) - MAX_RESULT_BYTES
    while excess > 0:
        largest = max(run_queues, key=lambda each: each.result_bytes)
        excess -= largest.forget_oldest_results(excess)


def bytes_of_result(result: RunResult | Failure) -> int:
    if isinstance(result, PassOutput):
        return RESULT_BYTES + sum(ARRAY_BYTES + logprobs.nbytes for logprobs in result.logprobs)
    return RESULT_BYTES


def bytes_of(request: RunRequest) -> int:
    """What a request takes while it waits: the arrays of a pass, the texts of others."""
    if isinstance(request, ForwardBackward):
        return sum(DATUM_BYTES + datum.num_bytes for datum in request.data)
    return len(msgspec.msgpack.encode(request))
