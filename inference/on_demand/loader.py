"""Loads models when requests need them; unloads them when they are idle or another one needs the memory.

In the second case they sleep where the others leave room. Everything runs on the server's event loop: one
task takes one model after the other from a queue. Does not know what a model's process is, nor how a request
is answered.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from math import inf

from inference.errors import NotFound, Unavailable
from inference.metrics.on_demand import OnDemandMetrics
from inference.on_demand.expected_wait import seconds_until_loaded, share_example
from inference.on_demand.lifecycle import ModelLifecycle
from inference.on_demand.managed_model import (
    FAILED_REST_S,
    LoadFailed,
    LoadLimits,
    MakeProcess,
    ManagedModel,
    ManagedProcess,
    NotLoaded,
)
from inference.on_demand.residency import Departures, MemoryCapacity


class ModelLoader:
    """The models of this machine that are loaded on demand. `load` and `unload` are for any thread."""

    def __init__(
        self,
        models: Sequence[ManagedModel],
        capacity: MemoryCapacity,
        limits: LoadLimits,
        make_process: MakeProcess,
        metrics: OnDemandMetrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._models: Mapping[str, ManagedModel] = {}
        self._capacity = capacity
        self._limits = limits
        self._lifecycle = ModelLifecycle(make_process, metrics, clock, self._note_change)
        self._metrics = metrics
        self._clock = clock
        self._queue: deque[ManagedModel] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_working = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()
        for model in models:
            self.add(model)

    def model(self, name: str) -> ManagedModel:
        """Raises NotFound for a model that is not loaded on demand."""
        if name not in self._models:
            raise NotFound(f"{name} is not loaded on demand: it is served as long as the server runs")
        return self._models[name]

    def add(self, model: ManagedModel) -> None:
        """Load another model on demand from now on. From any thread."""
        self._models = {**self._models, model.name: model}
        self._metrics.follow(model.name, partial(getattr, model, "status"))

    def remove(self, name: str) -> None:
        """Unload the model after its running answers, for good. Returns at once. Raises NotFound."""
        model = self.model(name)
        if self._loop is None:
            self._forget(model)
        else:
            self._call(lambda model: self._spawn(self._remove(model)), model)

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to load the pinned models. Further calls have no effect."""
        if self._loop is None:
            self._loop = loop
            for model in self._models.values():
                if model.is_pinned:
                    self._enqueue(model)

    def load(self, name: str) -> None:
        """Load the model if it is not loaded. Returns at once. Raises NotFound."""
        model = self.model(name)
        self._call(self._request_load, model)

    def unload(self, name: str) -> None:
        """Unload the model after its running answers. Returns at once. Raises NotFound."""
        model = self.model(name)
        self._call(self._request_unload, model)

    @asynccontextmanager
    async def use(self, model: ManagedModel, within_s: float = inf) -> AsyncIterator[None]:
        """As Residence.use. Raises NotLoaded."""
        await self._wait_until_ready(model, within_s)
        model.cancel_idle_timer()
        try:
            with model.answering(self._clock()):
                yield
        finally:
            self._note_use(model)

    def close(self) -> None:
        """End all processes. Call it after the event loop has ended."""
        for model in self._models.values():
            if model.process:
                model.process.kill()

    async def _wait_until_ready(self, model: ManagedModel, within_s: float) -> None:
        if model.is_ready:
            return
        if rest_s := model.rest_s(self._clock()):
            raise NotLoaded(model.problem, rest_s)
        model.num_waiting += 1
        try:
            async with asyncio.timeout(min(self._limits.wait_s, within_s)):
                while not model.is_ready:
                    if problem := await asyncio.shield(self._enqueue(model)):
                        raise NotLoaded(problem, FAILED_REST_S)
        except TimeoutError:
            model.is_requested = True  # the client is to come again, and finds it loaded
            now = self._clock()
            swap_s, models = self._limits.swap_s, self._models.values()
            wait_s = seconds_until_loaded(model, models, self._capacity, swap_s, now)
            raise model.still_loading(now, wait_s) from None
        finally:
            model.num_waiting -= 1
            self._changed.set()

    def _enqueue(self, model: ManagedModel) -> asyncio.Future[str]:
        """Put the model into the queue unless it is there, or is being loaded. Returns its `loading`."""
        assert self._loop is not None, "attached before the first request"
        if model.loading is None:
            model.loading = self._loop.create_future()
            model.queued_at = self._clock()
            self._queue.append(model)
            if not self._is_working:
                self._is_working = True
                self._spawn(self._work())
        return model.loading

    async def _work(self) -> None:
        """Load the models of the queue, one after the other."""
        while self._queue:
            model = self._queue.popleft()
            model.finish_loading(await self._try_to_load(model))
            while model.is_ready and model.num_waiting:  # they begin before another model takes its memory
                await asyncio.sleep(0)
            self._note_use(model)
        self._is_working = False

    async def _try_to_load(self, model: ManagedModel) -> str:
        """Returns why the model could not be loaded; empty if it was, or if it is not needed any more."""
        try:
            if model.status == "loaded":  # it was about to leave
                model.takes_requests = True
                return ""
            await self._make_room(model)
            if model.is_needed:
                await self._wake_or_start(model)
            return ""
        except Exception as error:
            self._lifecycle.record_failure(model, error)
            return model.problem

    async def _make_room(self, model: ManagedModel) -> None:
        """Let models leave until this one fits. Raises LoadFailed if it never does."""
        while model.is_needed:
            others = [each for each in self._models.values() if each.occupies_memory and each is not model]
            departures = self._capacity.choose_departures(others, model)
            if departures is None:
                raise LoadFailed(f"{model.name} needs more memory than the pinned models leave")
            if model.status != "unloading" and not departures.leaving:
                return
            await self._let_leave(departures, model)

    async def _let_leave(self, departures: Departures[ManagedModel], incoming: ManagedModel) -> None:
        """The idle ones leave; busy ones take no new requests once `incoming` has waited long enough.

        Sleeping models are unloaded last: the busy ones may end in another order than expected.
        """
        due_in_s = []
        awake = [model for model in departures.leaving if not model.is_asleep]
        for model in awake:
            due_at = max(incoming.queued_at, model.loaded_at) + self._limits.swap_s
            if self._clock() >= due_at:
                model.takes_requests = False
            elif not model.may_leave:
                due_in_s.append(due_at - self._clock())
            if model.status == "loaded" and model.may_leave:
                await self._leave(model, sleeps=model in departures.to_sleep)
        if incoming.status == "unloading" or any(model.status in ("loaded", "unloading") for model in awake):
            await self._wait_for_change(min(due_in_s, default=None))
            return
        for model in departures.to_unload:
            if model.status == "sleeping":
                await self._lifecycle.stop(model, "memory")

    async def _leave(self, model: ManagedModel, *, sleeps: bool) -> None:
        """An idle model gives its memory back to another one. Its time in memory ends as if it were awake."""
        if not sleeps:
            await self._lifecycle.stop(model, "memory")
            return
        await self._lifecycle.sleep(model)
        self._set_idle_timer(model)

    async def _wake_or_start(self, model: ManagedModel) -> None:
        if model.status == "sleeping":
            model.cancel_idle_timer()
            await self._lifecycle.wake(model)
        if model.status != "loaded":
            self._spawn(self._watch(model, await self._lifecycle.start(model)))
            share_example(model, self._models.values())

    async def _watch(self, model: ManagedModel, process: ManagedProcess) -> None:
        """A pinned model is loaded again if its process ends by itself."""
        if await self._lifecycle.wait_for_crash(model, process) and model.is_pinned:
            self._enqueue(model)

    async def _unload(self, model: ManagedModel) -> None:
        """Unload the model once it is idle, unless a request that comes meanwhile needs it."""
        while model.status == "loading":
            await self._wait_for_change(None)
        if model.status == "sleeping":
            await self._lifecycle.stop(model, "request")
        if model.status != "loaded":
            return
        model.takes_requests = False
        while model.num_running and not model.takes_requests:
            await self._wait_for_change(None)
        if model.status == "loaded" and not model.takes_requests:
            await self._lifecycle.stop(model, "request")

    async def _remove(self, model: ManagedModel) -> None:
        """No request names the model any more; those that wait for it are answered."""
        while model.is_busy or model.loading is not None:
            await self._wait_for_change(None)
        await self._unload(model)
        self._forget(model)

    def _forget(self, model: ManagedModel) -> None:
        self._metrics.forget(model.name)
        self._models = {name: each for name, each in self._models.items() if each is not model}

    def _request_load(self, model: ManagedModel) -> None:
        if not model.is_ready:
            model.is_requested = True
            self._enqueue(model)

    def _request_unload(self, model: ManagedModel) -> None:
        if model.unloading is None or model.unloading.done():
            model.unloading = self._spawn(self._unload(model))
        elif model.status == "loaded":
            model.takes_requests = False

    def _note_use(self, model: ManagedModel) -> None:
        """Begin the time after which the model is unloaded, if it is idle."""
        model.last_used = self._clock()
        self._set_idle_timer(model)
        self._note_change()

    def _set_idle_timer(self, model: ManagedModel) -> None:
        model.cancel_idle_timer()
        leaves = not (model.is_pinned or model.is_busy) and model.keep_alive_s < inf
        if model.status in ("loaded", "sleeping") and leaves and self._loop:
            idle_s = self._clock() - model.last_used
            model.idle_timer = self._loop.call_later(
                max(0.0, model.keep_alive_s - idle_s), lambda: self._spawn(self._unload_if_idle(model))
            )

    async def _unload_if_idle(self, model: ManagedModel) -> None:
        if model.status in ("loaded", "sleeping") and not model.is_busy:
            await self._lifecycle.stop(model, "idle")

    def _note_change(self) -> None:
        self._changed.set()

    async def _wait_for_change(self, timeout_s: float | None) -> None:
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        self._tasks.add(task := asyncio.ensure_future(work))
        task.add_done_callback(self._tasks.discard)
        return task

    def _call(self, function: Callable[[ManagedModel], object], model: ManagedModel) -> None:
        if self._loop is None:
            raise Unavailable("the server is starting")
        self._loop.call_soon_threadsafe(function, model)
