"""Which models leave to make room."""

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
        answer_starts=[0.0] * running,
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
    chosen_models = CAPACITY.choose_leaving(loaded, incoming)
    assert (None if chosen_models is None else [each.name for each in chosen_models]) == leaving
