"""Models are loaded when requests need them, and leave when they are idle or another needs their memory.

The clock is simulated: a scenario has the same order on a machine of any speed.
"""

import asyncio
import errno
import gc
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from inference.backend_info import ModelInfo
from inference.errors import NotFound
from inference.events import Token
from inference.metrics.on_demand import OnDemandMetrics
from inference.on_demand.loader import ModelLoader
from inference.on_demand.managed_model import LoadFailed, LoadLimits, ManagedModel, NotLoaded
from inference.on_demand.model_residence import ModelResidence
from inference.on_demand.residency import MemoryCapacity
from inference.process.repeated_work import RepeatedWork
from tests.fakes.simulated_loop import run_simulated

Scenario = Callable[["LoaderSetup"], Coroutine[Any, Any, None]]
SLEEPERS = {"num_bytes": 10, "reclaimable_bytes": 8}  # each takes 10 bytes awake, and 2 asleep


class FakeProcess:
    """Starts as soon as `can_start` is set. Can sleep if the setup has reclaimable bytes."""

    def __init__(self, name: str, setup: "LoaderSetup") -> None:
        self.name, self.setup = name, setup
        self.exit = asyncio.Event()
        self.progress = "30 %"
        self.remaining_s: float | None = None
        self.reclaimable_bytes = setup.reclaimable_bytes
        self.is_asleep = False

    async def sleep(self) -> None:
        if self.name in self.setup.failing:
            raise LoadFailed(f"{self.name} does not sleep")
        self.setup.log.append(f"~{self.name}")
        self.is_asleep = True

    async def wake_up(self) -> None:
        if self.name in self.setup.failing:
            self.setup.failing.remove(self.name)
            raise LoadFailed(f"{self.name} does not wake")
        self.setup.log.append(f"!{self.name}")
        self.is_asleep = False

    async def start(self, note_cpu_s: Callable[[float], None]) -> ModelInfo:
        self.setup.log.append(f"+{self.name}")
        await self.setup.can_start.wait()
        if self.setup.start_error is not None:
            raise self.setup.start_error
        if self.name in self.setup.failing:
            raise LoadFailed(f"{self.name} is too large")
        return ModelInfo(self.name, 64, 100, 0, details={"dtype": "float32"})

    async def stop(self) -> None:
        self.setup.log.append(f"-{self.name}")
        self.exit.set()

    async def wait(self) -> int:
        await self.exit.wait()
        return -9

    def kill(self) -> None:
        self.exit.set()


class LoaderSetup:
    """A loader of models a, b and c, each of num_bytes.

    log                +name at a start, ~name when it goes to sleep, !name when it wakes, -name at a stop
    reclaimable_bytes  that each model gives back asleep; 0: none can sleep
    """

    def __init__(
        self,
        capacity: int = 2,
        wait_s: float = 5.0,
        swap_s: float = 0.02,
        num_bytes: int = 1,
        reclaimable_bytes: int = 0,
        **changes: Any,
    ) -> None:
        self.log: list[str] = []
        self.reclaimable_bytes = reclaimable_bytes
        self.failing: set[str] = set()
        self.start_error: Exception | None = None
        self.can_start = asyncio.Event()
        self.can_start.set()
        self.processes: dict[str, FakeProcess] = {}
        self.models = {name: ManagedModel(name, {"cpu": num_bytes}, **changes) for name in "abc"}
        self.registry = CollectorRegistry()
        self.loader = ModelLoader(
            list(self.models.values()),
            MemoryCapacity({"cpu": capacity}, 3),
            LoadLimits(wait_s, swap_s),
            self.make_process,
            OnDemandMetrics(self.registry),
            clock=time.monotonic,
        )

    def make_process(self, name: str) -> FakeProcess:
        self.processes[name] = FakeProcess(name, self)
        return self.processes[name]

    async def use_model(self, name: str, seconds: float = 0.001, until: asyncio.Event | None = None) -> None:
        async with self.loader.use(self.models[name]):
            assert self.models[name].status == "loaded"
            await (until.wait() if until else asyncio.sleep(seconds))
            assert self.models[name].status == "loaded", "a model that answers is not unloaded"

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.002)


def play(scenario: Scenario, **options: Any) -> None:
    async def run() -> None:
        setup = LoaderSetup(**options)
        setup.loader.attach(asyncio.get_running_loop())
        await scenario(setup)

    run_simulated(run)


def test_a_model_is_loaded_once_for_all_who_wait() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        await asyncio.gather(*(setup.use_model("a") for _ in range(5)))
        await setup.use_model("a")
        assert setup.log == ["+a"]

    play(scenario)


def test_the_least_recently_used_model_leaves() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        for name in ("a", "b", "a", "c"):
            await setup.use_model(name)
        assert setup.log == ["+a", "+b", "-b", "+c"]

    play(scenario)


def test_a_pinned_model_is_loaded_at_the_start_and_stays() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        setup.models["a"].is_pinned = True
        setup.loader._loop = None
        setup.loader.attach(asyncio.get_running_loop())
        await setup.wait_until(lambda: setup.models["a"].status == "loaded")
        for name in ("b", "c"):
            await setup.use_model(name)
        assert setup.log == ["+a", "+b", "-b", "+c"]

    play(scenario)


def test_a_crashed_pinned_model_is_loaded_again() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        setup.models["a"].is_pinned = True
        await setup.use_model("a")
        setup.processes["a"].exit.set()
        await setup.wait_until(lambda: setup.log == ["+a", "+a"])

    play(scenario)


def test_a_crashed_model_is_loaded_by_the_next_request() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        await setup.use_model("a")
        setup.processes["a"].exit.set()
        await setup.wait_until(lambda: setup.models["a"].status == "unloaded")
        await setup.use_model("a")
        assert setup.log == ["+a", "+a"]

    play(scenario)


def test_a_busy_model_leaves_after_its_answers_and_new_ones_wait() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        ends: list[str] = []
        is_over = asyncio.Event()

        async def use_model(name: str, label: str, until: asyncio.Event | None = None) -> None:
            await setup.use_model(name, until=until)
            ends.append(label)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(use_model("a", "a1", is_over))
            await setup.wait_until(lambda: setup.models["a"].num_running == 1)
            tasks.create_task(use_model("b", "b"))
            await setup.wait_until(lambda: not setup.models["a"].takes_requests)
            tasks.create_task(use_model("a", "a2"))
            await setup.wait_until(lambda: setup.models["a"].num_waiting == 1)
            is_over.set()
        assert ends == ["a1", "b", "a2"] and setup.log == ["+a", "-a", "+b", "-b", "+a"]

    play(scenario, capacity=1)


def test_mixed_requests_are_grouped_by_model() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        await asyncio.gather(*(setup.use_model(name, 0.001) for name in "abcabcabc"))
        assert setup.log == ["+a", "-a", "+b", "-b", "+c"]

    play(scenario, capacity=1)


@pytest.mark.parametrize("swap_s", [0.0, 0.005])
@pytest.mark.parametrize("memory", [{"capacity": 2}, {"capacity": 22, **SLEEPERS}], ids=["unload", "sleep"])
def test_every_request_is_answered_while_models_take_turns(swap_s: float, memory: dict[str, int]) -> None:
    async def scenario(setup: LoaderSetup) -> None:
        async def client(names: str) -> None:
            for name in names:
                await setup.use_model(name, 0.001)

        await asyncio.gather(client("abc" * 10), client("cba" * 10), client("a" * 20), client("b" * 20))
        assert sum(model.num_running + model.num_waiting for model in setup.models.values()) == 0

    play(scenario, swap_s=swap_s, **memory)


def test_an_idle_model_is_unloaded_after_its_keep_alive() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        await setup.use_model("a")
        await setup.use_model("a", 0.05)
        assert setup.models["a"].status == "loaded"
        await setup.wait_until(lambda: setup.models["a"].status == "unloaded")
        assert setup.log == ["+a", "-a"]

    play(scenario, keep_alive_s=0.03)


def test_a_request_gets_the_progress_after_its_wait_and_the_load_goes_on() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        setup.can_start.clear()
        with pytest.raises(NotLoaded, match=r"a has been loading for \d+ s \(30 %\)") as refusal:
            await setup.use_model("a")
        assert refusal.value.status == 503 and 1 <= refusal.value.retry_after <= 60
        setup.can_start.set()
        await setup.wait_until(lambda: setup.models["a"].status == "loaded")

    play(scenario, wait_s=0.02)


def test_a_request_waits_for_its_model_until_its_deadline() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        setup.can_start.clear()
        residence = ModelResidence(setup.loader, "a")
        async with asyncio.timeout(60):
            with pytest.raises(NotLoaded, match=r"a has been loading for \d+ s \(30 %\)"):
                async with residence.use(within_s=0.02):
                    pass
        setup.can_start.set()
        await setup.wait_until(lambda: setup.models["a"].status == "loaded")
        async with residence.use(within_s=-1.0):
            assert setup.models["a"].num_running == 1, "its deadline ends the answer, not the wait"

    play(scenario, wait_s=600.0)


def test_a_model_is_described_by_its_last_load() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        residence, info = ModelResidence(setup.loader, "a"), ModelInfo("a", None, 1 << 31, 5)

        def summary() -> tuple[str, str, int | None, str | None]:
            described = residence.describe(info)
            return (
                described.status,
                described.status_detail,
                described.context,
                described.details.get("dtype"),
            )

        assert summary() == ("unloaded", "", None, None)
        setup.can_start.clear()
        load = asyncio.create_task(setup.use_model("a"))
        await setup.wait_until(lambda: setup.models["a"].status == "loading")
        assert summary() == ("loading", "30 %", None, None)
        labels = {"model": "a", "status": "loading"}
        assert setup.registry.get_sample_value("hearth_model_status", labels) == 1
        setup.can_start.set()
        await load
        setup.loader.unload("a")
        await setup.wait_until(lambda: setup.models["a"].status == "unloaded")
        assert summary() == ("unloaded", "", 64, "float32")
        assert setup.registry.get_sample_value("hearth_model_status", labels) == 0

    play(scenario)


def test_a_failed_load_has_its_reason_and_is_not_tried_at_once() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        setup.failing.add("a")
        for _ in range(2):
            with pytest.raises(NotLoaded, match="a is too large"):
                await setup.use_model("a")
        assert setup.log == ["+a", "-a"] and setup.models["a"].status == "failed"
        assert setup.models["a"].status_detail == "a is too large"
        setup.models["a"].failed_at -= 7
        with pytest.raises(NotLoaded) as refusal:
            await setup.use_model("a")
        assert refusal.value.retry_after == pytest.approx(3.0, abs=0.5), "the rest of its rest"
        await setup.use_model("b")
        setup.failing.clear()
        setup.models["a"].failed_at -= 60
        await setup.use_model("a")

    play(scenario)


def test_what_can_never_fit_is_refused() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        setup.models["a"].is_pinned = True
        await setup.use_model("a")
        with pytest.raises(NotLoaded, match="b needs more memory than the pinned models leave"):
            await setup.use_model("b")

    play(scenario, capacity=1)


def test_a_model_is_not_loaded_for_clients_that_have_left() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        is_over = asyncio.Event()
        busy = asyncio.create_task(setup.use_model("a", until=is_over))
        await setup.wait_until(lambda: setup.models["a"].num_running == 1)
        waiting = asyncio.create_task(setup.use_model("b"))
        await setup.wait_until(lambda: setup.models["b"].num_waiting == 1)
        waiting.cancel()
        await asyncio.sleep(0.01)
        is_over.set()
        await busy
        await asyncio.sleep(0.01)
        assert setup.log == ["+a"]
        await setup.use_model("a")

    play(scenario, capacity=1)


def test_a_model_is_loaded_and_unloaded_by_request() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        setup.loader.load("a")
        await setup.wait_until(lambda: setup.models["a"].status == "loaded")
        busy = asyncio.create_task(setup.use_model("a", 0.03))
        await asyncio.sleep(0.01)
        setup.loader.unload("a")
        await busy
        await setup.wait_until(lambda: setup.models["a"].status == "unloaded")
        assert setup.log == ["+a", "-a"]
        with pytest.raises(NotFound, match="x is not loaded on demand"):
            setup.loader.load("x")

    play(scenario)


def test_a_request_that_comes_before_an_unload_keeps_the_model() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        is_over = asyncio.Event()
        busy = asyncio.create_task(setup.use_model("a", until=is_over))
        await setup.wait_until(lambda: setup.models["a"].num_running == 1)
        setup.loader.unload("a")
        await setup.wait_until(lambda: not setup.models["a"].takes_requests)
        await setup.use_model("a")
        is_over.set()
        await busy
        await asyncio.sleep(0.01)
        assert setup.log == ["+a"] and setup.models["a"].status == "loaded"

    play(scenario)


def test_a_request_behind_another_load_says_so() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        setup.can_start.clear()
        first = asyncio.create_task(setup.use_model("a"))
        await asyncio.sleep(0)
        with pytest.raises(NotLoaded, match="b waits until another model is loaded"):
            await setup.use_model("b")
        with pytest.raises(NotLoaded):
            await first
        setup.can_start.set()
        await setup.wait_until(lambda: setup.models["b"].status == "loaded")
        assert setup.log == ["+a", "+b"]

    play(scenario, wait_s=0.02)


def test_a_request_behind_other_loads_waits_for_all_of_them() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        setup.can_start.clear()
        waits = {}
        for name, load_s in zip("abc", (4.0, 8.0, 16.0), strict=True):
            setup.models[name].loads = RepeatedWork(load_s)

        async def refusal_of(name: str) -> None:
            with pytest.raises(NotLoaded) as refusal:
                await setup.use_model(name)
            waits[name] = refusal.value.retry_after

        async with asyncio.TaskGroup() as tasks:
            for name in "abc":
                tasks.create_task(refusal_of(name))
                await asyncio.sleep(0.001)
        setup.can_start.set()
        assert [waits[name] for name in "abc"] == pytest.approx([4.0, 12.0, 29.0], abs=0.5)

    play(scenario, wait_s=0.02)


def test_a_load_that_outlasts_what_was_expected_does_so_by_as_much_again() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        setup.models["a"].loads = RepeatedWork(10.0)
        setup.can_start.clear()
        loading = asyncio.create_task(setup.use_model("a"))
        await setup.wait_until(lambda: setup.models["a"].status == "loading")
        model, run = setup.models["a"], setup.models["a"].load
        assert run is not None
        run.note(run.started_at + 4.0, 2.0)
        assert model.remaining_load_s(run.started_at + 4.0) > 12.0, "half as fast as expected"
        run.note(run.started_at + 30.0, 20.0)
        assert model.remaining_load_s(run.started_at + 30.0) == pytest.approx(15.0, rel=0.1)
        setup.processes["a"].remaining_s = 50.0
        assert model.remaining_load_s(run.started_at + 30.0) == 50.0, "its download says more"
        setup.can_start.set()
        await loading

    play(scenario)


def test_a_model_whose_place_is_taken_waits_for_the_answers_of_the_other() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        await setup.use_model("a")
        setup.models["b"].loads = RepeatedWork(5.0)
        is_over = asyncio.Event()
        busy = asyncio.create_task(setup.use_model("a", until=is_over))
        await setup.wait_until(lambda: setup.models["a"].num_running == 1)
        with setup.models["a"].running_answers.count(201) as running:
            running.note([Token(0, 5, "a")])
            await asyncio.sleep(0.1)
            running.note([Token(0, 5, "a")])
            with pytest.raises(NotLoaded, match="b waits until another model") as refusal:
                await setup.use_model("b")
            expected_s = 199 * running.step_s + setup.models["a"].leave_s + 5.0
        assert refusal.value.retry_after == pytest.approx(expected_s, abs=0.2)
        is_over.set()
        await busy

    play(scenario, capacity=1, wait_s=0.02)


@pytest.mark.parametrize("returns", [True, False])
def test_a_model_waits_for_the_client_that_is_to_return(returns: bool) -> None:
    async def scenario(setup: LoaderSetup) -> None:
        setup.can_start.clear()
        for name in "ab":
            with pytest.raises(NotLoaded):
                async with setup.loader.use(setup.models[name], within_s=0.01):
                    pass
        setup.can_start.set()
        await setup.wait_until(lambda: setup.models["a"].status == "loaded")
        await asyncio.sleep(0.01)
        if returns:
            await setup.use_model("a")
            assert setup.log == ["+a"], "b waits for its answer"
        await setup.wait_until(lambda: setup.models["b"].status == "loaded")
        assert setup.log == ["+a", "-a", "+b"], "after MODEL_SWAP_SECONDS at the latest"

    play(scenario, capacity=1, swap_s=5.0 if returns else 0.1)


def test_a_model_that_leaves_right_after_its_load_is_not_missed(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(setup: LoaderSetup) -> None:
        setup.loader.load("a")
        setup.loader.load("b")
        await setup.wait_until(lambda: setup.models["b"].status == "loaded")
        await asyncio.sleep(0.01)

    play(scenario, capacity=1, swap_s=0.0)
    gc.collect()
    assert "never retrieved" not in caplog.text


def test_a_model_that_is_added_is_loaded_like_others() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        setup.models["d"] = ManagedModel("d", {"cpu": 1})
        setup.loader.add(setup.models["d"])
        await setup.use_model("d")
        assert setup.log == ["+d"]

    play(scenario)


def test_a_removed_model_ends_its_answers_and_is_forgotten() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        running = asyncio.create_task(setup.use_model("a", 0.02))
        await setup.wait_until(lambda: setup.models["a"].num_running == 1)
        setup.loader.remove("a")
        await running
        await setup.wait_until(lambda: setup.log == ["+a", "-a"])
        await asyncio.sleep(0)
        with pytest.raises(NotFound):
            setup.loader.remove("a")
        series = {sample.labels["model"] for each in setup.registry.collect() for sample in each.samples}
        assert series == {"b", "c"}

    play(scenario)


def test_a_model_that_is_not_loaded_is_removed_at_once() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        setup.loader.remove("b")
        await asyncio.sleep(0.01)
        with pytest.raises(NotFound):
            setup.loader.model("b")
        assert setup.log == []

    play(scenario)


def test_a_storm_of_unloads_is_one_task() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        async with setup.loader.use(setup.models["a"]):
            num_tasks = len(asyncio.all_tasks())
            for _ in range(200):
                setup.loader.unload("a")
            await asyncio.sleep(0.01)
            assert len(asyncio.all_tasks()) <= num_tasks + 1
        await setup.wait_until(lambda: setup.log == ["+a", "-a"])

    play(scenario)


def test_a_process_that_memory_is_too_small_for_is_said_so() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        setup.start_error = OSError(errno.ENOMEM, "Cannot allocate memory")
        with pytest.raises(NotLoaded, match="a could not be loaded: the server has too little memory"):
            await setup.use_model("a")
        setup.start_error = None
        await setup.use_model("b")

    play(scenario)


def test_a_model_that_leaves_sleeps_and_is_woken_by_its_next_request() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        for name in "aba":
            await setup.use_model(name)
        assert setup.log == ["+a", "~a", "+b", "~b", "!a"]
        assert [setup.models[name].status for name in "ab"] == ["loaded", "sleeping"]
        value = setup.registry.get_sample_value
        assert value("hearth_model_sleeps_total", {"model": "a"}) == 1
        assert value("hearth_model_loads_total", {"model": "a", "outcome": "ok"}) == 1, "it was loaded once"
        assert [value("hearth_model_loaded", {"model": name}) for name in "ab"] == [1, 0]
        assert value("hearth_model_status", {"model": "b", "status": "sleeping"}) == 1

    play(scenario, capacity=12, **SLEEPERS)


def test_the_model_that_slept_longest_is_unloaded_where_its_memory_is_needed() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        for name in "abc":
            await setup.use_model(name)
        assert setup.log == ["+a", "~a", "+b", "~b", "-a", "+c"]

    play(scenario, capacity=12, **SLEEPERS)


def test_a_model_that_sleeps_is_unloaded_after_its_keep_alive() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        await setup.use_model("a")
        setup.models["b"].keep_alive_s = 60.0
        await setup.use_model("b")
        assert setup.models["a"].status == "sleeping"
        await setup.wait_until(lambda: setup.models["a"].status == "unloaded")
        assert setup.log == ["+a", "~a", "+b", "-a"]

    play(scenario, capacity=12, keep_alive_s=0.03, **SLEEPERS)


def test_a_sleeping_model_is_unloaded_by_request() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        for name in "ab":
            await setup.use_model(name)
        setup.loader.unload("a")
        await setup.wait_until(lambda: setup.models["a"].status == "unloaded")
        await setup.use_model("a")
        assert setup.log == ["+a", "~a", "+b", "-a", "~b", "+a"]

    play(scenario, capacity=12, **SLEEPERS)


def test_a_sleeping_model_whose_process_ends_is_loaded_again() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        for name in "ab":
            await setup.use_model(name)
        setup.processes["a"].exit.set()
        await setup.wait_until(lambda: setup.models["a"].status == "unloaded")
        await setup.use_model("a")
        assert setup.log == ["+a", "~a", "+b", "~b", "+a"]

    play(scenario, capacity=12, **SLEEPERS)


@pytest.mark.parametrize(
    ("fails_at", "log"),
    [("ab", ["+a", "-a", "+b", "~b", "+a"]), ("aba", ["+a", "~a", "+b", "~b", "-a", "+a"])],
    ids=["sleeping", "waking"],
)
def test_a_model_that_fails_to_sleep_or_wake_is_loaded_again(fails_at: str, log: list[str]) -> None:
    async def scenario(setup: LoaderSetup) -> None:
        for names in ("a", "ab", "aba"):
            if names == fails_at:
                setup.failing.add("a")
            await setup.use_model(names[-1])
            if names == "ab":
                setup.failing.clear()
        assert setup.log == log

    play(scenario, capacity=12, **SLEEPERS)


def test_a_model_waits_for_the_answers_of_one_that_is_to_sleep() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        is_over = asyncio.Event()
        busy = asyncio.create_task(setup.use_model("a", until=is_over))
        await setup.wait_until(lambda: setup.models["a"].num_running == 1)
        waiting = asyncio.create_task(setup.use_model("b"))
        await setup.wait_until(lambda: not setup.models["a"].takes_requests)
        assert setup.log == ["+a"]
        is_over.set()
        await asyncio.gather(busy, waiting)
        assert setup.log == ["+a", "~a", "+b"]

    play(scenario, capacity=12, **SLEEPERS)


def test_a_client_is_to_return_when_a_sleeping_model_is_awake() -> None:
    async def scenario(setup: LoaderSetup) -> None:
        for name in "ab":
            await setup.use_model(name)
        model = setup.models["a"]
        model.loads, model.wake_s = RepeatedWork(40.0), 2.0
        assert model.remaining_load_s(model.started_at) == 2.0
        setup.loader.unload("a")
        await setup.wait_until(lambda: model.status == "unloaded")
        assert model.remaining_load_s(model.started_at) == 40.0

    play(scenario, capacity=12, **SLEEPERS)
