"""The life of a model's process: it starts, sleeps, wakes, stops or crashes, and the model's state follows.

Logs and counts each change. Does not know which model is needed, nor when.
"""

import logging
from collections.abc import Callable

from inference.metrics.on_demand import OnDemandMetrics
from inference.on_demand.managed_model import (
    LoadFailed,
    MakeProcess,
    ManagedModel,
    ManagedProcess,
    describe_failure,
)
from inference.process.repeated_work import WorkRun

log = logging.getLogger(__name__)


class ModelLifecycle:
    """Changes the state of models. For the event loop. on_change: called after each change but a load."""

    def __init__(
        self,
        make_process: MakeProcess,
        metrics: OnDemandMetrics,
        clock: Callable[[], float],
        on_change: Callable[[], None],
    ) -> None:
        self._make_process = make_process
        self._metrics = metrics
        self._clock = clock
        self._on_change = on_change

    async def start(self, model: ManagedModel) -> ManagedProcess:
        """Load the model. Returns its process."""
        model.status, model.started_at = "loading", self._clock()
        model.load = load = WorkRun(model.loads, model.started_at)
        model.process = process = self._make_process(model.name)
        log.info("event=model_loading model=%s", model.name)
        try:
            model.info = await process.start(lambda cpu_s: load.note(self._clock(), cpu_s))
        except BaseException:
            model.process = None
            await process.stop()
            raise
        load_s = model.note_loaded(self._clock())
        load.complete(self._clock())
        log.info("event=model_loaded model=%s seconds=%.1f", model.name, load_s)
        self._metrics.record_load(model.name, load_s)
        return process

    def record_failure(self, model: ManagedModel, error: Exception) -> None:
        """The model could not be loaded: its problem says why."""
        model.problem = describe_failure(model.name, error)
        log.warning("event=load_failed model=%s: %s", model.name, model.problem)
        model.status, model.failed_at = "failed", self._clock()
        self._metrics.record_load(model.name, None)

    async def sleep(self, model: ManagedModel) -> None:
        """Let a model that answers no request give memory back. One that cannot is unloaded."""
        process, start = model.process, self._clock()
        assert process is not None
        model.note_leaving()
        try:
            await process.sleep()
        except LoadFailed as error:
            await self._stop_failed(model, process, error)
            return
        if model.process is process:
            model.status, model.takes_requests, model.leave_s = "sleeping", True, self._clock() - start
            log.info("event=model_sleeping model=%s", model.name)
            self._metrics.record_sleep(model.name)
            self._on_change()

    async def wake(self, model: ManagedModel) -> None:
        """Wake a sleeping model. One that does not wake is unloaded."""
        process = model.process
        assert process is not None
        model.status, model.started_at = "loading", self._clock()
        try:
            await process.wake_up()
        except LoadFailed as error:
            await self._stop_failed(model, process, error)
            return
        if model.process is process:
            model.wake_s = model.note_loaded(self._clock())
            log.info("event=model_woken model=%s seconds=%.2f", model.name, model.wake_s)
            self._metrics.record_wake(model.name, model.wake_s)

    async def stop(self, model: ManagedModel, reason: str) -> None:
        """Unload a model that answers no request. reason: "idle", "memory", "request" or "crash"."""
        assert model.process is not None
        process, model.process, start = model.process, None, self._clock()
        model.cancel_idle_timer()
        model.note_leaving()
        await process.stop()
        model.status, model.takes_requests, model.leave_s = "unloaded", True, self._clock() - start
        log.info("event=model_unloaded model=%s reason=%s", model.name, reason)
        self._metrics.record_unload(model.name, reason)
        self._on_change()

    async def wait_for_crash(self, model: ManagedModel, process: ManagedProcess) -> bool:
        """Wait until the process ends; returns whether it did by itself, and not because it was stopped."""
        code = await process.wait()
        if model.process is not process:
            return False
        log.error("event=model_crashed model=%s exit_code=%d", model.name, code)
        model.process, model.status, model.takes_requests = None, "unloaded", True
        self._metrics.record_unload(model.name, "crash")
        self._on_change()
        return True

    async def _stop_failed(self, model: ManagedModel, process: ManagedProcess, error: LoadFailed) -> None:
        log.warning("event=sleep_failed model=%s: %s", model.name, error)
        if model.process is process:  # it has not been seen to end by itself
            await self.stop(model, "crash")
