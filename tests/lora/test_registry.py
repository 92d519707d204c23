"""The registry of adapters: names, leases, and which adapters leave memory. The tasks record their calls."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inference.engine.step_output import StepOutput
from inference.errors import BadRequest, NotFound, Overloaded
from inference.lora.adapter import AdapterExists
from inference.lora.load import LoadedAdapter, load_adapter
from inference.lora.registry import AdapterRegistry
from tests.fakes.stepped_clock import SteppedClock

FOLDER = Path("folder")
SIZE = 100


class FakeTasks:
    """Runs load_adapter and remove_adapter: records which numbers are in memory.

    free_bytes, until_unused_s  what the registry is told
    broken      folders that cannot be read
    """

    def __init__(self) -> None:
        self.resident: list[int] = []
        self.free_bytes = 10**6
        self.until_unused_s: float | None = None
        self.broken: set[Path] = set()

    def run(self, task: Callable[..., Any], *args: Any) -> Callable[[], Any]:
        if task is not load_adapter:
            self.resident.remove(args[0])
            return lambda: None
        folder, number, _ = args
        if Path(folder) in self.broken:
            raise BadRequest("adapter", "has NaN")
        self.resident.append(number)
        return lambda: LoadedAdapter(8, SIZE)


class RecordedOutputs:
    def __init__(self) -> None:
        self.outputs: list[StepOutput] = []

    def put(self, output: StepOutput) -> None:
        self.outputs.append(output)


@pytest.fixture
def tasks() -> FakeTasks:
    return FakeTasks()


@pytest.fixture
def registry(tasks: FakeTasks) -> AdapterRegistry:
    return AdapterRegistry(
        tasks.run,
        lambda folder: folder,
        lambda folder: SIZE,
        lambda: tasks.free_bytes,
        lambda: tasks.until_unused_s,
        max_adapters=2,
        max_rank=8,
    )


def names(registry: AdapterRegistry) -> list[str]:
    return [card.name for card in registry.cards()]


def test_a_loaded_adapter_is_listed_until_it_is_unloaded(registry: AdapterRegistry, tasks: FakeTasks) -> None:
    card = registry.load("poet", FOLDER, "acme/poet")
    assert (card.name, card.source, card.number, card.rank) == ("poet", "acme/poet", 1, 8)
    assert names(registry) == ["poet"] and registry.has("poet")
    registry.unload("poet")
    assert names(registry) == [] and tasks.resident == []
    with pytest.raises(NotFound):
        registry.unload("poet")


def test_a_name_is_taken_unless_the_adapter_is_replaced(registry: AdapterRegistry, tasks: FakeTasks) -> None:
    registry.load("poet", FOLDER, "a")
    with pytest.raises(AdapterExists):
        registry.load("poet", FOLDER, "b")
    assert registry.load("poet", FOLDER, "b", replace=True).number == 2
    assert tasks.resident == [2], "the weights that were replaced are given back"


@pytest.mark.parametrize("name", ["", "-a", "a b", "../a", "a..b", "a" * 201, "ä"])
def test_a_bad_name_is_refused(registry: AdapterRegistry, name: str) -> None:
    with pytest.raises(BadRequest, match="names have 1 to 200 letters"):
        registry.load(name, FOLDER, "a")


def test_an_adapter_that_cannot_be_read_changes_nothing(registry: AdapterRegistry, tasks: FakeTasks) -> None:
    registry.load("poet", FOLDER, "a")
    tasks.broken.add(Path("broken"))
    with pytest.raises(BadRequest, match="NaN"):
        registry.load("poet", Path("broken"), "b", replace=True)
    assert names(registry) == ["poet"] and registry.lease("poet", 1).number == 1


def test_weights_stay_until_the_last_answer_of_a_lease(registry: AdapterRegistry, tasks: FakeTasks) -> None:
    registry.load("poet", FOLDER, "a")
    lease = registry.lease("poet", 2)
    first, second = lease.watch([RecordedOutputs(), RecordedOutputs()])
    registry.unload("poet")
    first.put(StepOutput((1,)))
    first.put(StepOutput((2,), finish_reason="stop"))
    assert tasks.resident == [1]
    second.put(StepOutput(error=BadRequest("", "failed")))
    assert tasks.resident == []


def test_a_cancelled_lease_keeps_nothing(registry: AdapterRegistry, tasks: FakeTasks) -> None:
    registry.load("poet", FOLDER, "a")
    registry.lease("poet", 3).cancel()
    registry.unload("poet")
    assert tasks.resident == []


def test_the_least_used_adapter_leaves_memory_and_comes_back_with_a_new_number(
    registry: AdapterRegistry, tasks: FakeTasks
) -> None:
    for name in ("first", "second"):
        registry.load(name, FOLDER, name)
    registry.lease("first", 1).cancel()
    registry.load("third", FOLDER, "third")
    assert tasks.resident == [1, 3] and names(registry) == ["first", "second", "third"]
    assert registry.lease("second", 1).number == 4
    assert tasks.resident == [3, 4], "first was used least recently"


def test_adapters_that_answer_stay_in_memory(registry: AdapterRegistry, tasks: FakeTasks) -> None:
    for name in ("first", "second"):
        registry.load(name, FOLDER, name)
        registry.lease(name, 1)
    with pytest.raises(Overloaded):
        registry.load("third", FOLDER, "third")
    assert tasks.resident == [1, 2] and names(registry) == ["first", "second"]


def test_a_refused_load_names_the_time_until_an_adapter_is_unused(
    registry: AdapterRegistry, tasks: FakeTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SteppedClock()
    for module in ("inference.lora.registry", "inference.drain_rate"):
        monkeypatch.setattr(f"{module}.time", clock)
    for name in ("first", "second"):
        registry.load(name, FOLDER, name)
    earlier = registry.lease("first", 2)
    clock.now = 20.0
    earlier.cancel()
    registry.lease("first", 1)
    clock.now = 24.0
    registry.lease("second", 1)
    clock.now = 27.0
    with pytest.raises(Overloaded) as refused:
        registry.load("third", FOLDER, "third")
    assert refused.value.retry_after == 13, "20 s as before, of which 7 have passed"
    tasks.until_unused_s = 4.0
    with pytest.raises(Overloaded) as refused:
        registry.load("third", FOLDER, "third")
    assert refused.value.retry_after == 4, "the engine knows the progress of the answers"


def test_an_adapter_beyond_the_free_memory_is_refused_with_need_and_have(
    registry: AdapterRegistry, tasks: FakeTasks
) -> None:
    registry.load("first", FOLDER, "first")
    registry.lease("first", 1)
    tasks.free_bytes = 60
    with pytest.raises(BadRequest, match="needs 100 bytes of memory, 60 bytes are free"):
        registry.load("second", FOLDER, "second")


def test_an_unused_adapter_makes_room_for_another(registry: AdapterRegistry, tasks: FakeTasks) -> None:
    registry.load("first", FOLDER, "first")
    tasks.free_bytes = 60
    registry.load("second", FOLDER, "second")
    assert tasks.resident == [2] and names(registry) == ["first", "second"]
