"""How long a planned model's sequences may be: its own length, stretched, and bounded by what is asked."""

from collections.abc import Callable
from pathlib import Path

import pytest
import transformers

from checks import memory, prompt
from checks.finding import Refused
from checks.machine import Machine
from checks.plan import Plan
from checks.source.find import in_folder
from inference.model.scaling import Scaling
from tests import tiny

Planned = Callable[..., Plan]


@pytest.mark.parametrize("kind", ["linear", "dynamic", "yarn"])
def test_a_stretched_model_is_planned_with_its_new_length(kind: str, planned: Planned) -> None:
    plan = planned(scaling=Scaling(kind, 4.0))
    assert (plan.longest, plan.limit) == (2048, 2048)


def test_a_context_beyond_the_models_length_fits_a_stretched_one(planned: Planned, machine: Machine) -> None:
    short, long = planned(context=1000), planned(context=1000, scaling=Scaling("yarn", 2.0))
    findings = [memory.check_context(plan, machine) for plan in (short, long)]
    assert [finding.ok for finding in findings if finding] == [False, True]


def test_a_context_asked_for_is_not_laid_at_the_memorys_door(planned: Planned, machine: Machine) -> None:
    finding = memory.check_context(planned(context=200), machine)
    assert finding and finding.need == "200 tokens" and "memory holds less" not in finding.have


@pytest.mark.parametrize(("longest", "ok"), [(199, True), (200, False)])
def test_prompts_must_leave_room_for_an_answer(longest: int, ok: bool) -> None:
    finding = prompt.check(longest, 200)
    assert finding.ok is ok
    assert ok or finding.have == "`max_input_tokens`(200) must be < `max_total_tokens`(200)"


def test_a_sequence_has_no_more_tokens_than_all_together(planned: Planned, machine: Machine) -> None:
    assert memory.budget(planned(tokens=300), machine).context == 300
    assert memory.budget(planned(tokens=3000), machine).context == 512


def test_a_model_that_cannot_be_stretched_is_refused_before_it_is_fetched(
    planned: Planned, tmp_path: Path
) -> None:
    config = transformers.GPT2Config(vocab_size=320, n_embd=32, n_layer=1, n_head=2, n_positions=64)
    folder = tiny.saved(tmp_path / "gpt2", transformers.GPT2LMHeadModel, config)
    with pytest.raises(Refused) as caught:
        planned(in_folder("gpt2", folder, code=False), scaling=Scaling("linear", 2.0))
    assert caught.value.finding.mend == 'ROPE_SCALING = ""'
