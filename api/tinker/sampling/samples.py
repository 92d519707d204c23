"""The requests for samples that are in flight, and their results until the client has fetched them.

They live in memory: after a restart their ids are unknown, and the client sends the requests again.
"""

import time
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from flask import Flask, current_app

from api.tinker.errors import UnknownSample
from api.tinker.sampling.completions import Completions
from api.tinker.sampling.result import SampleCollector, SampleResult
from inference.errors import BadRequest, ServerError, short
from tuning.runs.pending_samples import PendingSamples
from tuning.runs.promise import Promise
from tuning.runs.types import Failure

SAMPLES = "tinker_samples"  # key in app.extensions: the Samples
CLONE = 10**9  # the seq_ids of the n-th clone of a sampling client begin at n times this number
SAMPLER_MARK = ":sample:"  # in the ids of sampling sessions, with which those of their requests begin
SWEEP_S = 60.0
MAX_RESULT_BYTES = 256 << 20  # of results that are kept; the oldest are sampled again, if anybody wants them
FAILURE_BYTES = 2048

SamplePromise: TypeAlias = Promise[SampleResult | Failure]
Finish = Callable[[SampleResult | ServerError], None]
Start = Callable[[Finish], SampleCollector]


def install(app: Flask) -> None:
    app.extensions[SAMPLES] = Samples()


def current_samples() -> "Samples":
    samples: Samples = current_app.extensions[SAMPLES]
    return samples


def is_sample_id(request_id: str) -> bool:
    """Whether a promise is one of samples: others begin with the id of a run."""
    return SAMPLER_MARK in request_id


class RunningSample(NamedTuple):
    collector: SampleCollector
    finish: Finish


class Samples:
    """Promises by request id. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._promises: dict[str, SamplePromise] = {}
        self._running: dict[str, RunningSample] = {}
        self._completions: dict[tuple[str, int], Completions] = {}
        self._result_bytes: dict[str, int] = {}  # of the promises that are resolved, the oldest first
        self._swept = time.monotonic()

    def find(self, request_id: str) -> SamplePromise:
        """Raises UnknownSample."""
        promise = self._promises.get(request_id)
        if promise is None:
            raise UnknownSample(f"there is no request {short(request_id)}: send it again")
        return promise

    def submit(
        self, request_id: str, start: Start, on_end: Callable[[], None], completions: Completions | None
    ) -> None:
        """Begin to sample with `start`, unless the request is known: then it is a retry. Raises ServerError.

        on_end       called once, when nothing is sampled any more
        completions  told of the end
        """
        self._sweep()
        self._forget_oldest()
        promise: SamplePromise = Promise(request_id)
        if self._promises.setdefault(request_id, promise) is not promise:
            on_end()
            return

        def finish(outcome: SampleResult | ServerError) -> None:
            if self._running.pop(request_id, None) is not None:  # only the first call counts
                on_end()
                self._result_bytes[request_id] = bytes_of(outcome)
                resolve(promise, outcome, completions)

        try:
            collector = start(finish)
        except ServerError:
            del self._promises[request_id]
            on_end()
            raise
        self._running[request_id] = RunningSample(collector, finish)
        collector.start()

    def cancel(self, request_id: str) -> None:
        """Stop the sampling; no effect on a request that has ended, or is unknown."""
        running = self._running.get(request_id)
        if running is not None:
            running.collector.close()
            running.finish(BadRequest("", "the request was cancelled"))

    def completions(self, sampler_id: str, clone: int, pending: PendingSamples) -> Completions:
        """What retrieve_futures polls: the ends of the requests of one sampling client.

        Requests that an earlier server has lost have ended: the client learns that they are gone.
        """
        key = (sampler_id, clone)
        if key not in self._completions:
            ids = pending.ids(sampler_id, clone)
            lost = [request_id for request_id in ids if request_id not in self._promises]
            self._completions.setdefault(key, Completions(lost))
        return self._completions[key]

    def forget(self, request_id: str) -> None:
        """The client has the result."""
        promise = self._promises.get(request_id)
        if promise is not None and promise.is_resolved:
            self._drop(request_id)

    def _drop(self, request_id: str) -> None:
        self._promises.pop(request_id, None)
        self._result_bytes.pop(request_id, None)

    def _forget_oldest(self) -> None:
        """Forget results beyond MAX_RESULT_BYTES: clients that never fetch them must not fill the memory."""
        sizes = list(self._result_bytes.items())
        excess = sum(size for _, size in sizes) - MAX_RESULT_BYTES
        for request_id, size in sizes:
            if excess <= 0:
                return
            self._drop(request_id)
            excess -= size

    def _sweep(self) -> None:
        """Forget results that nobody has fetched for long."""
        if time.monotonic() - self._swept < SWEEP_S:
            return
        self._swept = time.monotonic()
        for request_id, promise in list(self._promises.items()):
            if promise.is_expired:
                self._drop(request_id)
        for key, completions in list(self._completions.items()):
            if completions.is_idle:
                self._completions.pop(key, None)


def resolve(
    promise: SamplePromise, outcome: SampleResult | ServerError, completions: Completions | None
) -> None:
    is_failed = isinstance(outcome, ServerError)
    promise.resolve(to_failure(outcome) if isinstance(outcome, ServerError) else outcome)
    if completions is not None:
        completions.add(promise.request_id, "failed" if is_failed else "finished")


def bytes_of(outcome: SampleResult | ServerError) -> int:
    return FAILURE_BYTES if isinstance(outcome, ServerError) else outcome.num_bytes


def to_failure(error: ServerError) -> Failure:
    return Failure(message=error.message, category="user" if error.status < 500 else "server")
