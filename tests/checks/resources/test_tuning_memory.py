"""The memory that serving leaves to trainers: on the device where they compute, in place of KV cache."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checks.execution import device
from checks.machine import Gpu, Machine
from checks.memory import ModelSize
from checks.memory.estimate import available_bytes
from checks.memory.plan import Plan, replan
from checks.resources import enough_memory
from checks.suggestions import suggest
from inference.finding import Finding
from inference.model.kv_cost import KVCost
from settings.groups import tuning_memory_bytes, tuning_processes
from settings.sources import Source, read_config_file, resolve

Planner = Callable[..., Plan]
HOME = Path(__file__).parents[3]
GB = 10**9
RESERVE = 3 * GB


def plan_of(planned: Planner, device: str, reserve: int = RESERVE) -> Plan:
    """A model of 16 GB whose KV cache takes whatever there is."""
    plan = planned(device=device, max_sequences=1000, tuning_memory_bytes=reserve)
    size = ModelSize(8 * 10**9, "bfloat16", 16 * GB, KVCost(131_072))
    return replace(plan, model_size=size, default_context=131_072, context_limit=131_072)


def with_free(machine: Machine, device: str, num_bytes: int) -> Machine:
    if device == "cpu":
        return replace(machine, ram=num_bytes)
    return replace(machine, gpus=(Gpu("a", num_bytes, num_bytes),))


def serving_bytes(plan: Plan, machine: Machine) -> int:
    (terms,) = enough_memory.full_batch_terms(plan, machine).values()
    return terms.serving


def device_finding(plan: Plan, machine: Machine) -> Finding:
    finding = enough_memory.check_ram(plan, machine) if plan.device == "cpu" else None
    return finding or enough_memory.check_gpus(plan, machine)[0]


@pytest.mark.parametrize(("device", "num_bytes"), [("cpu", 22 * GB), ("cuda", 40 * GB)])
def test_a_full_batch_leaves_just_as_much(
    planned: Planner, machine: Machine, device: str, num_bytes: int
) -> None:
    free = with_free(machine, device, num_bytes)
    spare = [
        available_bytes(plan, free, device) - serving_bytes(plan, free)
        for plan in (plan_of(planned, device, 0), plan_of(planned, device))
    ]
    assert spare[0] < RESERVE and spare[1] == pytest.approx(0, abs=100)


def test_what_the_kv_cache_leaves_anyway_is_not_left_twice(planned: Planner, machine: Machine) -> None:
    free = with_free(machine, "cpu", 40 * GB)
    budgets = [enough_memory.plan_budget(plan_of(planned, "cpu", reserve), free) for reserve in (0, RESERVE)]
    assert budgets[0] == budgets[1]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_model_that_fits_only_without_it_is_refused(
    planned: Planner, machine: Machine, device: str
) -> None:
    plan, free = plan_of(planned, device), with_free(machine, device, 19 * GB)
    finding = device_finding(plan, free)
    assert not finding.ok and finding.have.endswith("beside 3.0 GB of TUNING_MEMORY_GB")
    assert device_finding(replan(plan, tuning_memory_bytes=0), free).ok
    assert suggest(plan, free)[0].settings == {"TUNING_MEMORY_GB": 0}


def test_on_another_device_than_the_trainers_nothing_is_kept(planned: Planner, machine: Machine) -> None:
    plan = replace(plan_of(planned, "cuda"), layer_devices=("cuda:0", "cuda:1", "cpu"))
    free = replace(machine, gpus=(Gpu("a", 24 * GB, 24 * GB),) * 2)
    findings = [enough_memory.check_ram(plan, free), *enough_memory.check_gpus(plan, free)]
    assert ["TUNING_MEMORY_GB" in finding.have for finding in findings if finding] == [False, True, False]


@pytest.mark.parametrize(("folder", "expected"), [("", 2_500_000_000), ("off", 0)])
def test_the_setting_counts_where_there_is_tuning(folder: str, expected: int) -> None:
    flags = Source("flags", {"TUNING_MEMORY_GB": 2.5, "TUNING_DIR": folder})
    assert tuning_memory_bytes(resolve((read_config_file(HOME / "config.py"), flags))) == expected


def test_each_process_of_a_trainer_has_a_gpu(planned: Planner, machine: Machine) -> None:
    two = replace(machine, gpus=(Gpu("a", GB, GB), Gpu("b", GB, GB)))
    assert device.check_tuning(9, planned(device="cpu"), two) == []
    assert device.check_tuning(2, planned(device="cuda"), two) == []
    (finding,) = device.check_tuning(3, planned(device="cuda"), two)
    assert (finding.need, finding.have) == ("3 GPUs for as many processes", "2 GPUs")
    assert not finding.ok and finding.fix == "TUNING_PROCESSES = 2"


@pytest.mark.parametrize(
    ("value", "num_gpus", "expected"), [(0, 4, 4), (0, 0, 1), (3, 4, 3), (2, 0, 2), (1, 8, 1)]
)
def test_zero_processes_mean_one_per_gpu(value: int, num_gpus: int, expected: int) -> None:
    settings = resolve([read_config_file(HOME / "config.py"), Source("flags", {"TUNING_PROCESSES": value})])
    assert tuning_processes(settings, num_gpus) == expected
    assert tuning_processes(replace(settings, tuning_dir="off"), num_gpus) == 1
