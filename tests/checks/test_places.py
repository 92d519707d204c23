"""A model over several devices: each is checked for its part, and the nearest list that fits is told."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from checks import every, memory
from checks.finding import Finding
from checks.machine import Gpu, Machine
from checks.machine.overhead import FIRST
from checks.measure import Measure
from checks.nearest import nearest
from checks.plan import Plan
from inference.model.split.spread import places

Split = Callable[..., Plan]
GB = 10**9
PROGRAM = FIRST.ram
# Ten layers of 1 GB and 2 GB besides; 2,048 tokens of a sequence keep 1 GB.
MEASURE = Measure(6 * GB, "bfloat16", 12 * GB, 500_000, 0, layers=(GB,) * 10)
KV = 2048 * 500_000


@pytest.fixture
def split(planned: Callable[..., Plan]) -> Split:
    """The plan with so many layers on each GPU, the rest on the CPU."""

    def plan_it(*counts: int, **changes: object) -> Plan:
        plan = planned(device="cuda")
        source = replace(plan.repository, config=dict(plan.repository.config) | {"dtype": "bfloat16"})
        facts = {"measure": MEASURE, "longest": 8192, "limit": 8192}
        return replace(plan, repository=source, places=places(counts, 10), **(facts | changes))

    return plan_it


def gpus(*free: int) -> tuple[Gpu, ...]:
    return tuple(Gpu("a", size, size) for size in free)


def on_gpu(weights: int, share: float) -> int:
    return int(weights * 1.02) + 700_000_000 + int(KV * share)


def named(plan: Plan, machine: Machine) -> dict[str, Finding]:
    return {finding.name: finding for finding in every.run(plan, machine)}


def test_each_device_needs_its_layers_and_their_share_of_the_tokens(split: Split, machine: Machine) -> None:
    exact = {"GPU 0": on_gpu(5 * GB, 0.3), "GPU 1": on_gpu(2 * GB, 0.2)}
    ram = 5 * GB + PROGRAM + KV // 2
    enough = replace(machine, ram=ram, gpus=gpus(*exact.values()))
    assert all(finding.ok for name, finding in named(split(3, 2), enough).items() if name != "context")
    for name in exact:
        scarce = [size - (name == other) for other, size in exact.items()]
        assert not named(split(3, 2), replace(enough, gpus=gpus(*scarce)))[name].ok
    assert not named(split(3, 2), replace(enough, ram=ram - 1))["RAM"].ok


def test_ram_without_layers_holds_the_program_and_a_file(split: Split, machine: Machine) -> None:
    roomy = replace(machine, ram=2 * GB, gpus=gpus(9 * GB, 9 * GB))
    assert named(split(5, 5), roomy)["RAM"].ok


def test_the_fullest_device_bounds_the_tokens_of_all(split: Split, machine: Machine) -> None:
    left = 3 * GB
    scarce = replace(machine, gpus=gpus(20 * GB, int(2 * GB * 1.02) + 700_000_000 + left))
    assert memory.budget(split(3, 2, rows=1000), scarce).kv == int(left * 0.9 / 0.2)


@pytest.mark.parametrize(
    ("free", "ram", "layers"),
    [
        ((6 * GB, 6 * GB), 100 * GB, "2,4"),
        ((6 * GB, GB), 100 * GB, "2,0"),
        ((6 * GB, 6 * GB), 3 * GB, None),
    ],
)
def test_the_nearest_list_that_fits_is_told(
    split: Split, machine: Machine, free: tuple[int, ...], ram: int, layers: str | None
) -> None:
    crowded = replace(machine, ram=ram, gpus=gpus(*free))
    for plan in (split(6, 4), replace(split(), places=())):
        assert any(not item.ok for name, item in named(plan, crowded).items() if name.startswith("GPU"))
        found = nearest(plan, crowded)
        assert (found[0].settings if found else {}) == ({"LAYERS": layers} if layers else {})


def test_an_encoder_keeps_nothing_of_a_sequence(split: Split, machine: Machine) -> None:
    plan = split(5, 5, measure=replace(MEASURE, encoder=5))
    exact = replace(machine, gpus=gpus(on_gpu(7 * GB, 0), on_gpu(5 * GB, 1)))
    assert named(plan, exact)["GPU 0"].ok and named(plan, exact)["GPU 1"].ok
