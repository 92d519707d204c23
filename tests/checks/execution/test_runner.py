"""A RUNNER that the load would refuse is refused before the download, where weight values do not matter."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from checks.execution import runner
from checks.machine import Gpu, Machine
from checks.memory import measure_model
from checks.memory.kv_cost import RunnerChoice
from checks.memory.plan import Plan
from inference.errors import Unavailable
from inference.model.runner_selection.requirements import RUNNERS, RunnerLimits, RunnerRules
from inference.model.runner_selection.select_runner import select_runner
from tests.checks.family_settings import raw
from tests.tiny_models import families
from tests.tiny_models.families import CONTEXT

Planner = Callable[..., Plan]

# Each runner refuses some of these.
SOME = ("llama", "mixtral", "gpt2", "bloom", "jamba", "mamba", "t5", "openai-gpt", "deepseek_v3")


def test_auto_is_not_checked(planned: Planner, machine: Machine) -> None:
    assert runner.check(planned(), machine) is None


@pytest.mark.parametrize("name", RUNNERS)
def test_a_llama_fits_every_runner(planned: Planner, machine: Machine, name: str) -> None:
    finding = runner.check(planned(runner=name), machine)
    assert finding is not None and finding.ok and finding.need == name


@pytest.mark.parametrize(
    ("changes", "have", "fix"),
    [
        ({"runner": "paged", "deterministic": True}, "DETERMINISTIC", "DETERMINISTIC = False"),
        ({"runner": "fused", "device": "cuda"}, "GPU", 'DEVICE = "cpu"'),
        ({"runner": "fused", "num_shard": 2}, "2 processes", "NUM_SHARD = 1"),
        ({"runner": "fused", "dtype": "float16"}, "refuses: the model is in float16", 'RUNNER = "auto"'),
    ],
)
def test_the_obstacle_is_named(
    planned: Planner, machine: Machine, changes: dict[str, Any], have: str, fix: str
) -> None:
    gpu = replace(machine, gpus=(Gpu("a", 10**10, 10**10),))
    finding = runner.check(planned(**changes), gpu)
    assert finding is not None and not finding.ok
    assert have in finding.have and finding.fix.endswith(fix)


@pytest.mark.parametrize("name", ("fused", "paged", "contiguous"))
@pytest.mark.parametrize("family", SOME)
def test_the_preflight_refuses_a_runner_exactly_when_the_load_does(family: str, name: str) -> None:
    choice = RunnerChoice(name)
    refused = measure_model(raw(family), 0, lambda parameters: "float32", runner_choice=choice).runner_error
    model = families.tiny(family)
    try:
        select_runner(
            model,
            RunnerLimits(max_sequences=1, context=CONTEXT, kv_memory_bytes=1 << 24),
            RunnerRules(kinds=(name,)),
        )
    except Unavailable:
        assert refused
    else:
        assert not refused
