"""The memory plan of several models: how many fit together, and what each may take."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from checks.machine import Machine
from checks.memory.plan import Plan, replan
from checks.resources.enough_memory import check_context, check_ram
from checks.several_models import PlannedModel, check_together, minimum_bytes, share_memory, with_adapters

Planned = Callable[..., Plan]


@pytest.fixture
def small_plan(planned: Planned) -> Plan:
    return planned()


def models_of(plan: Plan, *names: str, pinned: str = "") -> list[PlannedModel]:
    return [PlannedModel(name, plan, name in pinned) for name in names]


def with_room_for(machine: Machine, plan: Plan, num_models: float) -> Machine:
    return replace(machine, ram=int(minimum_bytes(plan)["cpu"] * num_models))


@pytest.mark.parametrize(
    ("capacity", "pinned", "max_models", "num_fits"),
    [(3.1, "", 0, 3), (2.5, "", 0, 2), (2.5, "a", 0, 2), (1.2, "", 0, 1), (3.1, "", 2, 2), (2.1, "ab", 2, 0)],
)
def test_as_many_models_as_possible_fit_together(
    capacity: float, pinned: str, max_models: int, num_fits: int, small_plan: Plan, machine: Machine
) -> None:
    machine = with_room_for(machine, small_plan, capacity)
    models = models_of(small_plan, "a", "b", "c", pinned=pinned)
    finding = check_together(models, machine, max_models)
    assert finding.ok == (num_fits > 0)
    if finding.ok:
        assert share_memory(models, machine, max_models).num_fits == num_fits


@pytest.mark.parametrize(("capacity", "pinned"), [(0.9, ""), (1.9, "a"), (2.5, "abc")])
def test_pinned_models_and_the_largest_other_one_must_fit(
    capacity: float, pinned: str, small_plan: Plan, machine: Machine
) -> None:
    models = models_of(small_plan, "a", "b", "c", pinned=pinned)
    finding = check_together(models, with_room_for(machine, small_plan, capacity), 0)
    assert not finding.ok and "pin fewer models" in finding.fix


def test_models_that_fit_together_share_the_memory(small_plan: Plan, machine: Machine) -> None:
    machine = with_room_for(machine, small_plan, 2.5)
    shared = share_memory(models_of(small_plan, "a", "b", "c"), machine, 0)
    assert 2 * shared.shares["a"].num_bytes["cpu"] <= shared.capacity["cpu"] == machine.ram
    assert shared.shares["a"] == shared.shares["c"] and shared.shares["a"].kv_memory_bytes > 0


def test_a_models_own_process_accepts_its_share(small_plan: Plan, machine: Machine) -> None:
    models = models_of(small_plan, "a", "b", "c")
    share = share_memory(models, with_room_for(machine, small_plan, 2.01), 0).shares["a"]
    own_plan = replan(small_plan, context=share.context, kv_memory_bytes=share.kv_memory_bytes)
    own_machine = replace(machine, ram=share.num_bytes["cpu"])
    findings = [check(own_plan, own_machine) for check in (check_ram, check_context)]
    assert all(finding and finding.ok for finding in findings), findings


@pytest.mark.parametrize(
    ("needs", "num_shard", "expected"),
    [
        ({"cpu": 100}, 1, {"cpu": 107}),
        ({"cpu": 100}, 2, {"cpu": 114}),
        ({"cpu": 10, "cuda:0": 100, "cuda:1": 100}, 2, {"cpu": 10, "cuda:0": 107, "cuda:1": 107}),
    ],
)
def test_adapters_take_memory_where_the_weights_are(
    needs: dict[str, int], num_shard: int, expected: dict[str, int]
) -> None:
    assert with_adapters(needs, 7, num_shard) == expected
