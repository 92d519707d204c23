"""KV_DTYPE is refused before the download where the load would refuse it, and counted where it would not."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from checks.execution import kv_dtype
from checks.machine import Gpu, Machine
from checks.memory import measure_model
from checks.memory.kv_cost import RunnerChoice
from checks.memory.plan import Plan
from inference.errors import Unavailable
from inference.model.paged.q8_0 import head_bytes
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules
from inference.model.runner_selection.select_runner import select_runner
from tests.checks.family_settings import raw
from tests.tiny_models.families import CONTEXT, tiny

Planner = Callable[..., Plan]


def test_the_dtype_of_the_model_is_not_checked(planned: Planner, machine: Machine) -> None:
    assert kv_dtype.check(planned(), machine) is None


def test_a_llama_on_a_cpu_can_have_8_bits(planned: Planner, machine: Machine) -> None:
    plan = planned(kv_dtype="int8")
    finding = kv_dtype.check(plan, machine)
    assert finding is not None and finding.ok and finding.need == "int8"
    assert plan.model_size is not None
    assert plan.model_size.kv_cost.per_token == 2 * 2 * 2 * head_bytes(8)  # layers, keys and values, heads


@pytest.mark.parametrize(
    ("changes", "have", "fix"),
    [
        ({"device": "cuda"}, "a model on a GPU", 'DEVICE = "cpu"'),
        ({"runner": "contiguous"}, "the contiguous runner", 'RUNNER = "auto"'),
        ({"runner": "uncached"}, "the uncached runner", 'RUNNER = "auto"'),
    ],
)
def test_the_obstacle_is_named(
    planned: Planner, machine: Machine, changes: dict[str, Any], have: str, fix: str
) -> None:
    gpu = replace(machine, gpus=(Gpu("a", 10**10, 10**10),))
    finding = kv_dtype.check(planned(kv_dtype="int8", **changes), gpu)
    assert finding is not None and not finding.ok
    assert have in finding.have and finding.fix == f'{fix}, or KV_DTYPE = "auto"'


@pytest.mark.parametrize("deterministic", (False, True))
@pytest.mark.parametrize(
    "family",
    (
        "llama",
        "gpt2",
        "bloom",
        "jamba",
        "t5",
        "gemma2",
        "gpt_oss",
        "codegen",
        "llama4_text",
        "roberta",
        "diffllama",
    ),
)
def test_the_preflight_refuses_and_counts_8_bits_as_the_load_does(family: str, deterministic: bool) -> None:
    choice = RunnerChoice(deterministic=deterministic, kv_dtype="int8")
    size = measure_model(raw(family), 0, lambda parameters: "float32", runner_choice=choice)
    rules = RunnerRules(deterministic=deterministic, kv_dtype="int8", timed=deterministic)
    try:
        selected = select_runner(
            tiny(family), RunnerLimits(max_sequences=2, context=CONTEXT, kv_memory_bytes=1 << 26), rules
        )
    except Unavailable as refusal:
        assert "KV_DTYPE" in refusal.message and size.runner_error
    else:
        assert not size.runner_error and size.kv_cost == selected.kv_cost
