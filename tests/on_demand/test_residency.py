"""Which models leave to make room, and which of them sleep."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from inference.on_demand.managed_model import ManagedModel
from inference.on_demand.residency import MemoryCapacity

CAPACITY = MemoryCapacity({"cpu": 10, "cuda:0": 10}, 3)


def model(
    name: str, cpu: int, gpu: int = 0, *, used: float = 0, running: int = 0, **keys: bool
) -> ManagedModel:
    return ManagedModel(
        name,
        {"cpu": cpu, "cuda:0": gpu},
        last_used=used,
        num_running=running,
        is_pinned=keys.get("pinned", False),
    )


@pytest.mark.parametrize(
    ("loaded", "incoming", "leaving"),
    [
        ([model("a", 4), model("b", 4)], model("c", 2), []),
        ([model("a", 4, used=2), model("b", 4, used=1)], model("c", 4), ["b"]),
        ([model("a", 4, used=2), model("b", 4, used=1)], model("c", 9), ["b", "a"]),
        ([model("a", 4, used=2), model("b", 4, used=1, running=1)], model("c", 4), ["a"]),
        ([model("a", 4, used=2), model("b", 4, used=1, pinned=True)], model("c", 4), ["a"]),
        ([model("a", 4, pinned=True)], model("c", 7), None),
        ([model("a", 1, 8, used=2), model("b", 1, 2, used=1)], model("c", 1, 2), ["b"]),
        ([model("a", 1, used=2), model("b", 1, used=1), model("d", 1, used=3)], model("c", 1), ["b"]),
    ],
)
def test_as_few_models_leave_as_the_order_of_use_allows(
    loaded: list[ManagedModel], incoming: ManagedModel, leaving: list[str] | None
) -> None:
    departures = CAPACITY.choose_departures(loaded, incoming)
    assert (None if departures is None else names_of(departures.leaving)) == leaving


def names_of(models: Sequence[ManagedModel]) -> list[str]:
    return [model.name for model in models]


@dataclass(frozen=True, slots=True)
class Sleeper:
    """A model that may sleep. bytes_asleep: None: it cannot."""

    name: str
    bytes_awake: int
    last_used: float
    is_asleep: bool = False
    bytes_asleep: int | None = 1
    num_running: int = 0
    is_pinned: bool = False

    @property
    def needs(self) -> dict[str, int]:
        return {"cpu": self.bytes_awake}

    @property
    def needs_asleep(self) -> dict[str, int] | None:
        return None if self.bytes_asleep is None else {"cpu": self.bytes_asleep}


AWAKE, ASLEEP = Sleeper("awake", 4, 3), Sleeper("asleep", 9, 1, is_asleep=True)


@pytest.mark.parametrize(
    ("loaded", "incoming", "to_sleep", "to_unload"),
    [
        ([AWAKE, ASLEEP], 5, [], []),
        ([AWAKE, ASLEEP], 6, [], ["asleep"]),  # a model that is awake does not make room for one that sleeps
        ([AWAKE, ASLEEP], 8, ["awake"], []),
        ([AWAKE, ASLEEP], 9, ["awake"], ["asleep"]),  # the least recently used one
        ([AWAKE, ASLEEP], 10, [], ["awake", "asleep"]),
        ([replace(AWAKE, last_used=0), ASLEEP], 9, [], ["awake"]),
        ([replace(AWAKE, bytes_asleep=None), ASLEEP], 8, [], ["awake"]),
        ([AWAKE, replace(AWAKE, name="b", last_used=2), ASLEEP], 5, ["b"], ["asleep"]),
        ([replace(AWAKE, bytes_awake=1, name=name) for name in "abc"] + [ASLEEP], 1, ["a"], []),
        ([replace(AWAKE, is_pinned=True), ASLEEP], 6, [], ["asleep"]),
    ],
)
def test_models_sleep_where_those_that_are_awake_leave_room(
    loaded: list[Sleeper], incoming: int, to_sleep: list[str], to_unload: list[str]
) -> None:
    departures = CAPACITY.choose_departures(loaded, Sleeper("incoming", incoming, 0))
    assert departures is not None
    assert [each.name for each in departures.to_sleep] == to_sleep
    assert [each.name for each in departures.to_unload] == to_unload
