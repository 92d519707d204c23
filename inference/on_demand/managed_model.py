"""A model of this machine that is loaded on demand: what it needs, and its state. For the event loop."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from inference.backend_info import ModelInfo, ModelStatus
from inference.drain_rate import MAX_RETRY_S, MIN_RETRY_S, RecentDurations
from inference.errors import Unavailable
from inference.process.memory.memory_shortage import is_memory_shortage
from inference.process.repeated_work import RepeatedWork, WorkRun
from inference.remote.running_answers import RunningAnswers

FAILED_REST_S = 10.0  # after a failed load: requests get its reason, and nothing is tried
FIRST_LOAD_CPU_S = 6.0  # assumed before the first load of any model
FIRST_WAKE_S = FIRST_LEAVE_S = 1.0  # assumed of a model that has not slept, or left memory, yet
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

    async def start(self, note_cpu_s: Callable[[float], None]) -> ModelInfo:
        """Start it; when it answers requests, return what it says of the model. Raises LoadFailed.

        note_cpu_s  gets the CPU time that the load has used, again and again
        """
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

    needs            bytes on each device while it is loaded
    keep_alive_s     in memory after its last answer; inf: until its memory is needed
    takes_requests   False: it leaves after its running answers, and new requests wait for the next load
    num_running      requests that it answers now
    running_answers  knows when they are expected to end
    is_requested     it is to be loaded even if no request waits for it
    is_expected      a client that was told to return has not used it since its load
    returns          seconds from a load to such a client's first request; inf: it did not come
    loads            how far its loads were after how much CPU time; load: the last one
    wake_s, leave_s  how long it took to wake, and to free its memory, the last time
    info             what its process said of the model at its last load; None: it has not been loaded yet
    unloading        the last task that was to unload it
    loading          set while it is in the queue or being loaded: its result is why that failed, or empty
    """

    name: str
    needs: Mapping[str, int]
    keep_alive_s: float = 300.0
    is_pinned: bool = False
    status: ModelStatus = "unloaded"
    process: ManagedProcess | None = None
    num_running: int = 0
    running_answers: RunningAnswers = field(default_factory=RunningAnswers, repr=False)
    num_waiting: int = 0
    takes_requests: bool = True
    is_requested: bool = False
    is_expected: bool = False
    returns: RecentDurations = field(default_factory=RecentDurations, repr=False)
    problem: str = ""
    failed_at: float = -inf
    queued_at: float = 0.0
    started_at: float = 0.0
    loaded_at: float = 0.0
    last_used: float = 0.0
    loads: RepeatedWork = field(default_factory=lambda: RepeatedWork(FIRST_LOAD_CPU_S), repr=False)
    load: WorkRun | None = field(default=None, repr=False)
    wake_s: float = FIRST_WAKE_S
    leave_s: float = FIRST_LEAVE_S
    info: ModelInfo | None = None
    loading: asyncio.Future[str] | None = None
    unloading: asyncio.Task[None] | None = field(default=None, repr=False)
    idle_timer: asyncio.TimerHandle | None = field(default=None, repr=False)

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
    def answering(self, now: float) -> Iterator[None]:
        """It answers a request until the block ends."""
        self._expect_no_more(now - self.loaded_at)
        self.num_running += 1
        try:
            yield
        finally:
            self.num_running -= 1

    def rest_s(self, now: float) -> float:
        """Seconds until its load is tried again, if it has just failed; else 0."""
        return max(0.0, self.failed_at + FAILED_REST_S - now)

    def remaining_load_s(self, now: float) -> float:
        """Seconds that are left of its load, or until it is awake, by the last time and a download's rest."""
        if self.is_asleep or (self.status == "unloading" and self.needs_asleep is not None):
            return abs(self.wake_s - (now - self.started_at if self.status == "loading" else 0.0))
        if self.status != "loading" or self.load is None:
            return self.loads.total_s
        download_s = (self.process and self.process.remaining_s) or 0.0
        return max(download_s, self.load.remaining_s(now))

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

    def note_leaving(self) -> None:
        """It gives memory back from now on."""
        self.status = "unloading"
        self._expect_no_more(inf)

    def _expect_no_more(self, returned_after_s: float) -> None:
        if self.is_expected:
            self.is_expected = False
            self.returns.record(returned_after_s)

    def cancel_idle_timer(self) -> None:
        if self.idle_timer is not None:
            self.idle_timer.cancel()
            self.idle_timer = None
