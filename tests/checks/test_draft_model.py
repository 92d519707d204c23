"""The draft model of DRAFT_MODEL in the memory plan and the checks."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checks.draft_model import check_draft_model, plan_draft_model
from checks.machine import Gpu, Machine
from checks.memory import ModelSize
from checks.memory.plan import Plan, replan
from checks.preflight import plan_repository
from checks.resources import enough_memory
from checks.suggestions import suggest
from hub.resolve import resolve_model
from inference.finding import Refused
from inference.model.kv_cost import KVCost
from settings.schema import Settings
from settings.sources import Source, read_config_file, resolve

HOME = Path(__file__).parents[2]
GB = 10**9


def settings_of(**changes: object) -> Settings:
    flags = Source("flags", changes)
    return resolve((read_config_file(HOME / "config.py"), flags))


@pytest.fixture
def drafted(planned: Callable[..., Plan]) -> Plan:
    """A model of 16 GB with a draft model of 2 GB and 1 GB of KV cache."""
    size = ModelSize(8 * 10**9, "bfloat16", 16 * GB, KVCost(131_072))
    draft_size = ModelSize(10**9, "bfloat16", 2 * GB, KVCost(32_768))
    plan = replace(planned(device="cuda"), model_size=size, default_context=2048, context_limit=None)
    draft = replace(planned(device="cuda", max_sequences=1), model_size=draft_size, kv_memory_bytes=GB)
    return replace(plan, draft_plan=draft)


def test_its_bytes_are_part_of_the_plan_of_one_device(drafted: Plan, machine: Machine) -> None:
    alone, free = replace(drafted, draft_plan=None), replace(machine, gpus=(Gpu("a", 80 * GB, 80 * GB),))
    terms, alone_terms = (enough_memory.full_batch_terms(plan, free)["GPU"] for plan in (drafted, alone))
    assert terms.draft_model >= 3 * GB and not alone_terms.draft_model
    assert terms.fixed - alone_terms.fixed == terms.draft_model
    assert "of the draft model" in enough_memory.check_gpus(drafted, free)[0].need


def test_it_is_given_up_first_where_memory_is_short(drafted: Plan, machine: Machine) -> None:
    tight = replace(machine, ram=64 * GB, gpus=(Gpu("a", 19 * GB, 19 * GB),))
    assert not enough_memory.check_gpus(drafted, tight)[0].ok
    assert suggest(drafted, tight)[0].settings == {"DRAFT_MODEL": ""}


def test_a_changed_request_keeps_it(drafted: Plan) -> None:
    assert replan(drafted, max_sequences=2).draft_plan == drafted.draft_plan


def test_the_demo_drafts_for_itself(machine: Machine) -> None:
    settings = settings_of(DRAFT_MODEL="models/demo", CONTEXT=512)
    plan = plan_repository(settings, resolve_model(settings, HOME), machine)
    draft = plan_draft_model(settings, plan, machine, plan_repository)
    assert draft is not None and draft.context == 512 and draft.kv_memory_bytes
    findings = check_draft_model(replace(plan, draft_plan=draft), machine)
    assert findings and all(each.ok and each.name.startswith("draft model: ") for each in findings)


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        ({"kv_cost": KVCost(64, per_row=4096)}, "has recurrent states"),
        ({"num_encoder_layers": 2}, "has an encoder"),
        ({}, ""),
    ],
)
def test_one_that_cannot_take_drafts_back_is_refused(
    drafted: Plan, machine: Machine, size: dict[str, object], reason: str
) -> None:
    draft = drafted.draft_plan
    assert draft is not None and draft.model_size is not None
    changed = replace(draft, model_size=replace(draft.model_size, **size))
    findings = check_draft_model(replace(drafted, draft_plan=changed), machine)
    [finding] = [each for each in findings if each.name == "draft model: state"]
    assert finding.ok is not bool(reason) and reason in finding.have


def test_a_missing_one_is_refused_by_its_name(machine: Machine) -> None:
    settings = settings_of(DRAFT_MODEL="./nowhere")
    plan = plan_repository(settings, resolve_model(settings, HOME), machine)
    with pytest.raises(Refused) as refused:
        plan_draft_model(settings, plan, machine, plan_repository)
    finding = refused.value.finding
    assert finding.name.startswith("draft model: ") and finding.fix.startswith("set DRAFT_MODEL to a model")


@pytest.mark.parametrize("changes", [{}, {"DRAFT_MODEL": "models/demo", "DETERMINISTIC": True}])
def test_without_drafts_none_is_planned(machine: Machine, changes: dict[str, object]) -> None:
    settings = settings_of(**changes)
    plan = plan_repository(settings, resolve_model(settings, HOME), machine)
    assert plan_draft_model(settings, plan, machine, plan_repository) is None
