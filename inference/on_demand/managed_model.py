"""A model of this machine that is loaded on demand: what it needs, and its state. For the event loop."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from inference.drain_rate import MAX_RETRY_S, MIN_RETRY_S, RecentDurations
from inference.errors import Unavailable
from inference.process.memory_shortage import is_memory_shortage
from inference.types import ModelInfo, ModelStatus

FAILED_REST_S = 10.0  # after a failed load: requests get its reason, and nothing is tried
FIRST_LOAD_S = 10.0  # assumed of a model that has not been loaded yet
FIRST_WAKE_S = 1.0  # assumed of a model that has not slept yet
CPU = "cpu"

log = logging.getLogger(__name__)


class LoadFailed(Exception):
    """A model cannot be loaded. The message is shown to clients."""


class NotLoaded(Unavailable):
    """The model is not in memory. retry_after: seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


def describe_failure(name: str, error: Exception) -> str:
    """Why a model could not be loaded, for clients; the log has what they are not shown."""
    if isinstance(error, LoadFailed):
        return str(error)
    log.exception("event=load_failed model=%s", name, exc_info=error)
    reason = "the server has too little memory" if is_memory_shortage(error) else "the server's log says why"
    return f"{name} could not be loaded: {reason}"


class ManagedProcess(Protocol):
    """What serves a loaded model."""

    @property
    def progress(self) -> str:
        """How far the load is, for messages; empty: nothing is known."""
        ...

    @property
    def remaining_s(self) -> float | None:
        """Seconds that its download still takes; None: nothing is known."""
        ...

    @property
    def reclaimable_bytes(self) -> int:
        """RAM that it gives back while the model sleeps; 0: the model cannot sleep."""
        ...

    @property
    def is_asleep(self) -> bool:
        """Whether the model sleeps, or is about to wake."""
        ...

    async def start(self) -> ModelInfo:
        """Start it; when it answers requests, return what it says of the model. Raises LoadFailed."""
        ...

    async def sleep(self) -> None:
        """Give memory back until the model wakes. Raises LoadFailed."""
        ...

    async def wake_up(self) -> None:
        """Take requests again. Raises LoadFailed."""
        ...

    async def stop(self) -> None:
        """End it, and return when its memory is free."""
        ...

    async def wait(self) -> int:
        """Return its exit code when it has ended; negative: the signal that ended it."""
        ...

    def kill(self) -> None:
        """End it at once. From any thread."""
        ...


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """Seconds: that a request waits for its model, and that a busy model goes on while another one waits."""

    wait_s: float
    swap_s: float


MakeProcess = Callable[[str], ManagedProcess]  # by the name of the model


@dataclass(slots=True, eq=False)
class ManagedModel:
    """A model and its state.

    needs           bytes on each device while it is loaded
    keep_alive_s    in memory after its last answer; inf: until its memory is needed
    takes_requests  False: it leaves after its running answers, and new requests wait for the next load
    answer_starts   time.monotonic() of the running answers
    is_requested    it is to be loaded even if no request waits for it
    is_expected     a client that was told to return has not used it since its load
    info            what its process said of the model at its last load; None: it has not been loaded yet
    unloading       the last task that was to unload it
    loading         set while it is in the queue or being loaded: its result is why that failed, or empty
    """

    name: str
    needs: Mapping[str, int]
    keep_alive_s: float = 300.0
    is_pinned: bool = False
    status: ModelStatus = "unloaded"
    process: ManagedProcess | None = None
    answer_starts: list[float] = field(default_factory=list)
    num_waiting: int = 0
    takes_requests: bool = True
    is_requested: bool = False
    is_expected: bool = False
    problem: str = ""
    failed_at: float = -inf
    queued_at: float = 0.0
    started_at: float = 0.0
    loaded_at: float = 0.0
    last_used: float = 0.0
    load_s: float = FIRST_LOAD_S
    wake_s: float = FIRST_WAKE_S
    info: ModelInfo | None = None
    loading: asyncio.Future[str] | None = None
    unloading: asyncio.Task[None] | None = field(default=None, repr=False)
    idle_timer: asyncio.TimerHandle | None = field(default=None, repr=False)
    durations: RecentDurations = field(default_factory=RecentDurations, repr=False)  # of answers

    @property
    def num_running(self) -> int:
        return len(self.answer_starts)

    @property
    def is_ready(self) -> bool:
        return self.status == "loaded" and self.takes_requests

    @property
    def is_busy(self) -> bool:
        """Whether it answers requests, or is about to."""
        return self.num_running > 0 or (self.takes_requests and self.num_waiting > 0)

    @property
    def may_leave(self) -> bool:
        """Whether another model may have its memory at once. One that leaves takes no requests any more."""
        return not (self.is_busy or (self.is_expected and self.takes_requests))

    @property
    def is_needed(self) -> bool:
        return self.num_waiting > 0 or self.is_requested or self.is_pinned

    @property
    def is_asleep(self) -> bool:
        """Whether it sleeps, or is about to wake."""
        return self.process is not None and self.process.is_asleep

    @property
    def occupies_memory(self) -> bool:
        return self.status in ("loaded", "sleeping", "unloading")

    @property
    def needs_asleep(self) -> Mapping[str, int] | None:
        """Bytes on each device while it sleeps; None: it cannot sleep."""
        if self.process is None or not self.process.reclaimable_bytes:
            return None
        return {**self.needs, CPU: max(0, self.needs[CPU] - self.process.reclaimable_bytes)}

    @property
    def status_detail(self) -> str:
        """How far its load is, or why it failed; empty: nothing is known."""
        if self.status == "failed":
            return self.problem
        return self.process.progress if self.status == "loading" and self.process else ""

    @contextmanager
    def answering(self) -> Iterator[None]:
        """It answers a request until the block ends."""
        start, self.is_expected = time.monotonic(), False
        self.answer_starts.append(start)
        try:
            yield
        finally:
            self.answer_starts.remove(start)
            self.durations.record(time.monotonic() - start)

    def rest_s(self, now: float) -> float:
        """Seconds until its load is tried again, if it has just failed; else 0."""
        return max(0.0, self.failed_at + FAILED_REST_S - now)

    def remaining_load_s(self, now: float) -> float:
        """Seconds that are left of its load, or until it is awake, if it takes as long as the last time.

        If it has taken longer already, it takes as long again.
        """
        expected_s = self.wake_s if self.is_asleep else self.load_s
        if self.status != "loading":
            return expected_s
        elapsed_s = now - self.started_at
        download_s = (self.process and self.process.remaining_s) or 0.0
        return max(download_s, expected_s - elapsed_s if elapsed_s < expected_s else elapsed_s)

    def still_loading(self, now: float, wait_s: float) -> NotLoaded:
        """How far the load is, for a request that has waited long enough. wait_s: until it ends, expected."""
        if self.status != "loading":
            reason = "waits until another model is loaded, or has ended its answers"
        else:
            details = f" ({self.process.progress})" if self.process and self.process.progress else ""
            reason = f"has been loading for {now - self.started_at:.0f} s{details}"
        return NotLoaded(f"{self.name} {reason}", min(MAX_RETRY_S, max(MIN_RETRY_S, wait_s)))

    def finish_loading(self, problem: str) -> None:
        """Tell those who wait. problem: why its load failed; empty if it did not."""
        assert self.loading is not None
        self.loading.set_result(problem)
        self.loading, self.is_requested = None, False

    def note_loaded(self, now: float) -> float:
        """It takes requests from now on. Returns the seconds that its load, or its wake, has taken."""
        self.status, self.takes_requests, self.problem = "loaded", True, ""
        self.is_expected = self.is_requested
        self.loaded_at = self.last_used = now
        return now - self.started_at

    def cancel_idle_timer(self) -> None:
        if self.idle_timer is not None:
            self.idle_timer.cancel()
            self.idle_timer = None
