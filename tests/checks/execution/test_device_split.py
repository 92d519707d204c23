"""A model on several devices: each device's part is checked, and the nearest split that fits is suggested."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from checks import preflight
from checks.machine import Gpu, Machine
from checks.memory import ModelSize
from checks.memory.overhead import DEFAULT_OVERHEAD
from checks.memory.plan import Plan
from checks.resources import enough_memory
from checks.suggestions import suggest
from inference.finding import Finding
from inference.model.kv_cost import KVCost
from inference.model.placement.device_map import layer_devices

Split = Callable[..., Plan]
GB = 10**9
PROGRAM = DEFAULT_OVERHEAD.ram + DEFAULT_OVERHEAD.workspaces  # of a model in 16 bits
# Ten layers of 1 GB and 2 GB of other weights; the KV cache of 2,048 tokens takes 1 GB.
MEASURE = ModelSize(6 * GB, "bfloat16", 12 * GB, KVCost(500_000), layer_weights=(GB,) * 10)
KV = 2048 * 500_000


@pytest.fixture
def split(planned: Callable[..., Plan]) -> Split:
    """A plan with the given number of layers on each GPU, and the rest on the CPU."""

    def plan_it(*counts: int, **changes: object) -> Plan:
        plan = planned(device="cuda")
        source = replace(plan.repository, config=dict(plan.repository.config) | {"dtype": "bfloat16"})
        facts = {"model_size": MEASURE, "default_context": 8192, "context_limit": 8192}
        return replace(plan, repository=source, layer_devices=layer_devices(counts, 10), **(facts | changes))

    return plan_it


def gpus(*free: int) -> tuple[Gpu, ...]:
    return tuple(Gpu("a", size, size) for size in free)


def on_gpu(weights: int, share: float) -> int:
    return weights + 840_000_000 + int(KV * share)


def findings_by_name(plan: Plan, machine: Machine) -> dict[str, Finding]:
    return {finding.name: finding for finding in preflight.run_checks(plan, machine)}


def test_each_device_needs_memory_for_its_layers_and_their_kv_cache(split: Split, machine: Machine) -> None:
    exact = {"GPU 0": on_gpu(5 * GB, 0.3), "GPU 1": on_gpu(2 * GB, 0.2)}
    ram = 5 * GB + PROGRAM + KV // 2
    enough = replace(machine, ram=ram, gpus=gpus(*exact.values()))
    assert all(
        finding.ok for name, finding in findings_by_name(split(3, 2), enough).items() if name != "context"
    )
    for name in exact:
        scarce = [size - (name == other) for other, size in exact.items()]
        assert not findings_by_name(split(3, 2), replace(enough, gpus=gpus(*scarce)))[name].ok
    assert not findings_by_name(split(3, 2), replace(enough, ram=ram - 1))["RAM"].ok


def test_ram_without_layers_needs_the_program_and_a_file(split: Split, machine: Machine) -> None:
    roomy = replace(machine, ram=2 * GB, gpus=gpus(9 * GB, 9 * GB))
    assert findings_by_name(split(5, 5), roomy)["RAM"].ok


def test_the_fullest_device_limits_the_tokens_of_all(split: Split, machine: Machine) -> None:
    free_bytes = 3 * GB
    scarce = replace(machine, gpus=gpus(20 * GB, 2 * GB + 840_000_000 + free_bytes))
    assert enough_memory.plan_budget(split(3, 2, max_sequences=1000), scarce).kv_memory_bytes == int(
        free_bytes * 0.9 / 0.2
    )


@pytest.mark.parametrize(
    ("free", "ram", "layers"),
    [
        ((6 * GB, 6 * GB), 100 * GB, "2,4"),
        ((6 * GB, GB), 100 * GB, "2,0"),
        ((6 * GB, 6 * GB), 3 * GB, None),
    ],
)
def test_the_nearest_list_that_fits_is_suggested(
    split: Split, machine: Machine, free: tuple[int, ...], ram: int, layers: str | None
) -> None:
    crowded = replace(machine, ram=ram, gpus=gpus(*free))
    for plan in (split(6, 4), replace(split(), layer_devices=())):
        assert any(
            not item.ok for name, item in findings_by_name(plan, crowded).items() if name.startswith("GPU")
        )
        suggestions = suggest(plan, crowded)
        assert (suggestions[0].settings if suggestions else {}) == ({"LAYERS": layers} if layers else {})


def test_an_encoder_needs_no_kv_cache(split: Split, machine: Machine) -> None:
    plan = split(5, 5, model_size=replace(MEASURE, num_encoder_layers=5))
    exact = replace(machine, gpus=gpus(on_gpu(7 * GB, 0), on_gpu(5 * GB, 1)))
    assert findings_by_name(plan, exact)["GPU 0"].ok and findings_by_name(plan, exact)["GPU 1"].ok


def test_the_layers_are_counted_on_each_device(split: Split, machine: Machine, planned: Split) -> None:
    two = replace(machine, gpus=gpus(30 * GB, 30 * GB))
    layers, device = (findings_by_name(split(4, 1), two)[name] for name in ("layers", "device"))
    assert (layers.need, layers.have) == ("10", "4 on GPU 0, 1 on GPU 1, 5 on the CPU")
    assert device.have == "GPU 0: a of 30.0 GB, GPU 1: a of 30.0 GB"
    on_cpu = findings_by_name(planned(), two)
    assert (on_cpu["layers"].need, on_cpu["layers"].have) == ("2", "all on the CPU")
    assert on_cpu["device"].have == "supported; not used: GPU 0: a of 30.0 GB, GPU 1: a of 30.0 GB"
    sharded = replace(split(), layer_devices=(), num_shard=2)
    assert findings_by_name(sharded, two)["layers"].have == "each divided among 2 shards"
