"""Clients of a model on demand are told when it will be loaded. The clock and the processes are simulated."""

import asyncio
import random
import time
from bisect import bisect_right
from collections.abc import Callable
from math import inf
from statistics import mean

import pytest
from prometheus_client import CollectorRegistry

from inference.backend_info import ModelInfo
from inference.events import Token
from inference.metrics.on_demand import OnDemandMetrics
from inference.on_demand.expected_wait import share_example, stay_until_return_s
from inference.on_demand.loader import ModelLoader
from inference.on_demand.managed_model import LoadLimits, ManagedModel, NotLoaded
from inference.on_demand.residency import MemoryCapacity
from inference.process.repeated_work import WorkRun
from tests.fakes.simulated_loop import run_simulated
from tests.retry_after import share_close

STOP_S, SLEEP_S, WAKE_S, PAUSE_S, STEP_S = 1.0, 0.3, 0.5, 0.5, 0.05
LIMITS = LoadLimits(wait_s=0.0, swap_s=2.0)


class SimulatedProcess:
    """A load takes cpu_s on one core, of which speed_at tells the speed."""

    progress = ""
    remaining_s: float | None = None
    is_asleep = False

    def __init__(self, cpu_s: float, speed_at: Callable[[float], float], can_sleep: bool) -> None:
        self._cpu_s, self._speed_at = cpu_s, speed_at
        self.reclaimable_bytes = int(can_sleep)
        self._exit = asyncio.Event()

    async def start(self, note_cpu_s: Callable[[float], None]) -> ModelInfo:
        cpu_s = 0.0
        while cpu_s < self._cpu_s:
            await asyncio.sleep(0.5)
            cpu_s += 0.5 * self._speed_at(time.monotonic())
            note_cpu_s(cpu_s)
        return ModelInfo("", 64, 100, 0)

    async def sleep(self) -> None:
        await asyncio.sleep(SLEEP_S)
        self.is_asleep = True

    async def wake_up(self) -> None:
        await asyncio.sleep(WAKE_S)
        self.is_asleep = False

    async def stop(self) -> None:
        await asyncio.sleep(STOP_S)
        self._exit.set()

    async def wait(self) -> int:
        await self._exit.wait()
        return 0

    def kill(self) -> None:
        self._exit.set()


class Simulation:
    """Two models, of which one fits. Clients of `a` return at once, one of `b` asks all the time."""

    def __init__(
        self, speed_at: Callable[[float], float] = lambda now: 1.0, *, can_sleep: bool = False
    ) -> None:
        self.draws = random.Random(0)
        self.models = {name: ManagedModel(name, {"cpu": 1}) for name in "ab"}
        self._speed_at = speed_at
        self.loader = ModelLoader(
            list(self.models.values()),
            MemoryCapacity({"cpu": 1}, 1),
            LIMITS,
            lambda name: SimulatedProcess(self.draws.uniform(5.8, 6.2), speed_at, can_sleep),
            OnDemandMetrics(CollectorRegistry()),
            clock=time.monotonic,
        )
        self.refused: list[tuple[float, float]] = []
        self.accepted_at: list[float] = []

    async def run(self, seconds: float, num_clients: int) -> list[tuple[float, float]]:
        """Returns the expected and actual waits of the client of `b`."""
        self.loader.attach(asyncio.get_running_loop())
        clients = [asyncio.create_task(self._use_a()) for _ in range(num_clients)]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await asyncio.sleep(0.1)
            start = time.monotonic()
            try:
                async with self.loader.use(self.models["b"]):
                    self.accepted_at.append(start)
            except NotLoaded as refusal:
                self.refused.append((start, refusal.retry_after))
        for client in clients:
            client.cancel()
        return [
            (expected, self.accepted_at[index] - at)
            for at, expected in self.refused
            if (index := bisect_right(self.accepted_at, at)) < len(self.accepted_at)
        ]

    async def _use_a(self) -> None:
        model = self.models["a"]
        while True:
            try:
                async with self.loader.use(model):
                    await self._compute(model, self.draws.randint(20, 100))
                await asyncio.sleep(PAUSE_S)
            except NotLoaded:
                await asyncio.sleep(self.draws.uniform(1.0, 3.0))

    async def _compute(self, model: ManagedModel, num_tokens: int) -> None:
        with model.running_answers.count(num_tokens) as running:
            for _ in range(num_tokens):
                await asyncio.sleep(STEP_S / self._speed_at(time.monotonic()))
                running.note([Token(0, 5, "a")])


@pytest.mark.parametrize(("num_clients", "min_share"), [(1, 0.85), (3, 0.9)])
def test_when_models_take_turns_each_wait_is_expected(num_clients: int, min_share: float) -> None:
    async def scenario() -> None:
        assert share_close(await Simulation().run(300.0, num_clients)) > min_share

    run_simulated(scenario)


@pytest.mark.parametrize("num_clients", [1, 3])
def test_when_models_sleep_in_turn_each_wake_is_expected(num_clients: int) -> None:
    async def scenario() -> None:
        waits = await Simulation(can_sleep=True).run(300.0, num_clients)
        assert share_close(waits) > 0.83, "when a client returns that has the model woken is not known"

    run_simulated(scenario)


def test_a_machine_that_is_slow_for_a_while_is_followed() -> None:
    async def scenario() -> None:
        waits = await Simulation(lambda now: 1.0 if now // 60 % 2 else 0.6).run(400.0, 1)
        errors = [max(1.0, expected) - actual for expected, actual in waits]
        assert share_close(waits) > 0.65, "nothing tells beforehand that the speed will change"
        assert abs(mean(errors)) < 1.0

    run_simulated(scenario)


def test_a_model_stays_for_a_client_that_is_to_return() -> None:
    model = ManagedModel("a", {})
    model.running_answers.durations.record(3.0)
    for return_s in (1.0, inf):
        model.returns.record(return_s)
    assert stay_until_return_s(model, elapsed_s=0.0, due_s=2.0) == mean([1.0 + 3.0, 2.0])
    assert stay_until_return_s(model, elapsed_s=1.5, due_s=2.0) == 0.5, "it may still not return"
    assert stay_until_return_s(model, elapsed_s=2.5, due_s=2.0) == 0.0


@pytest.mark.parametrize("returns", [True, False])
def test_the_time_until_a_client_returns_is_remembered(returns: bool) -> None:
    model = ManagedModel("a", {}, is_requested=True)
    model.note_loaded(100.0)
    if returns:
        with model.answering(101.5):
            pass
    model.note_leaving()
    assert model.returns.mean_s == (1.5 if returns else inf)


def test_the_load_of_one_model_is_the_example_of_the_others() -> None:
    models = [ManagedModel(name, {}) for name in "abc"]
    for model, seconds in zip(models[:2], (4.0, 8.0), strict=True):
        WorkRun(model.loads, 100.0).complete(100.0 + seconds)
        share_example(model, models)
    assert [model.loads.total_s for model in models] == [4.0, 8.0, 8.0]
