"""The sequence length of a planned model: its own, scaled, and limited by the settings."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import transformers

from checks.machine import Machine
from checks.memory.plan import Plan
from checks.resources import enough_memory
from hub.resolve import from_folder
from inference.finding import Refused
from inference.model.load.rope import RopeScaling
from tests.tiny_models import tiny

Planned = Callable[..., Plan]


@pytest.mark.parametrize("kind", ["linear", "dynamic", "yarn"])
def test_a_scaled_model_is_planned_with_its_new_length(kind: str, planned: Planned) -> None:
    plan = planned(rope_scaling=RopeScaling(kind, 4.0))
    assert (plan.default_context, plan.context_limit) == (2048, 2048)


def test_a_context_beyond_the_models_length_fits_a_scaled_one(planned: Planned, machine: Machine) -> None:
    short, long = planned(context=1000), planned(context=1000, rope_scaling=RopeScaling("yarn", 2.0))
    findings = [enough_memory.check_context(plan, machine) for plan in (short, long)]
    assert [bool(finding.fix) for finding in findings if finding] == [True, False]
    assert [enough_memory.plan_budget(plan, machine).context for plan in (short, long)] == [512, 1000]


def test_a_requested_context_is_not_attributed_to_the_memory(planned: Planned, machine: Machine) -> None:
    finding = enough_memory.check_context(planned(context=200), machine)
    assert finding and finding.need == "200 tokens" and "reduced to fit" not in finding.have


@pytest.mark.parametrize(
    ("ram", "kv_memory_bytes", "fix"),
    [(0, 0, enough_memory.SMALLER_FIX), (10**11, 1, "KV_MEMORY_GB = 0, or a larger value")],
)
def test_no_memory_for_a_token_is_never_reported_as_ok(
    planned: Planned, machine: Machine, ram: int, kv_memory_bytes: int, fix: str
) -> None:
    plan = planned(kv_memory_bytes=kv_memory_bytes)
    finding = enough_memory.check_context(plan, replace(machine, ram=ram))
    assert finding and (finding.ok, finding.have, finding.fix) == (False, "memory for 0 tokens", fix)


@pytest.mark.parametrize(("longest", "ok"), [(199, True), (200, False)])
def test_prompts_must_leave_room_for_an_answer(longest: int, ok: bool) -> None:
    finding = enough_memory.check_prompt(longest, 200)
    assert finding.ok is ok
    assert ok or finding.have == "`max_input_tokens`(200) must be < `max_total_tokens`(200)"


def test_a_lowered_context_lowers_the_prompts_with_a_warning() -> None:
    finding = enough_memory.check_prompt(300, 200, is_context_lowered=True)
    assert finding.ok and finding.fix == "MAX_INPUT_TOKENS = 199, or 0"


def test_the_context_is_at_most_the_total_of_all_tokens(planned: Planned, machine: Machine) -> None:
    assert enough_memory.plan_budget(planned(max_batch_total_tokens=300), machine).context == 300
    assert enough_memory.plan_budget(planned(max_batch_total_tokens=3000), machine).context == 512


def test_a_model_that_cannot_be_scaled_is_refused_before_it_is_fetched(
    planned: Planned, tmp_path: Path
) -> None:
    config = transformers.GPT2Config(vocab_size=320, n_embd=32, n_layer=1, n_head=2, n_positions=64)
    folder = tiny.save_model(tmp_path / "gpt2", transformers.GPT2LMHeadModel, config)
    with pytest.raises(Refused) as caught:
        planned(from_folder("gpt2", folder), rope_scaling=RopeScaling("linear", 2.0))
    assert caught.value.finding.fix == 'ROPE_SCALING = "none" and ROPE_FACTOR = 1'
