"""Plans the draft model of DRAFT_MODEL and checks it, before its weights are fetched.

It is loaded beside the model, on the same device (the first of several) and in one process.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from checks.execution import kv_dtype, quantize
from checks.machine import Machine
from checks.memory.estimate import kv_bytes_of
from checks.memory.plan import Plan
from checks.model import architecture, prequantized, tokenizer, weights
from checks.model.repository import check_access, check_licence, check_remote_code
from checks.resources import disk
from checks.suggestions import as_list
from hub.repository import Repository
from hub.resolve import resolve_model
from inference.finding import Finding, Refused
from settings.schema import Settings

HOME = Path(__file__).resolve().parent.parent
NAME = "draft model"
MAX_SEQUENCES = 16  # that may have drafts at once: more do not share the tokens of a step
MAX_CONTEXT = 16384  # tokens of a sequence with drafts
ROWS_IN_MEMORY = 2  # the KV cache holds as many sequences of the whole context, or more that are shorter

CHECKS = (
    check_access,
    check_licence,
    architecture.check,
    check_remote_code,
    tokenizer.check,
    prequantized.check,
    quantize.check,
    kv_dtype.check,
    weights.check,
    disk.check,
)

PlanRepository = Callable[[Settings, Repository, Machine], Plan]


def plan_draft_model(
    settings: Settings, plan: Plan, machine: Machine, plan_repository: PlanRepository
) -> Plan | None:
    """The plan of the draft model beside the model's plan; None if there is none. Raises Refused."""
    if not settings.draft_model or plan.model_size is None or not settings.max_drafts:
        return None
    own = replace(
        settings,
        model_name=settings.draft_model,
        model_revision="main",
        gguf_file="",
        device="cuda" if plan.device == "cuda" else "cpu",
        layers="",
        num_shard=1,
        context=min(plan.context or plan.default_context, MAX_CONTEXT),
        max_sequences=min(plan.max_sequences, MAX_SEQUENCES),
        max_batch_total_tokens=0,
        rope_scaling="none",
        rope_factor=1.0,
        tokenizer_config_path="",
        chat_template="",
    )
    try:
        draft = plan_repository(own, resolve_model(own, HOME), machine)
    except Refused as error:
        raise Refused(named(error.finding)) from None
    if draft.model_size is None:
        return draft
    kv_bytes = kv_bytes_of(draft, draft.model_size, ROWS_IN_MEMORY * draft.context, draft.context)
    return replace(draft, kv_memory_bytes=kv_bytes)


def check_draft_model(plan: Plan, machine: Machine) -> list[Finding]:
    """The findings about the draft model; its memory is part of the model's."""
    draft = plan.draft_plan
    if draft is None:
        return []
    rest = replace(machine, disk=machine.disk - plan.repository.bytes_to_fetch)
    return [
        named(finding) for check in (*CHECKS, check_takes_back) for finding in as_list(check(draft, rest))
    ]


def check_takes_back(plan: Plan, machine: Machine) -> Finding | None:
    """Whether the model can forget the tokens of wrong drafts, as open_draft_model.py requires."""
    size = plan.model_size
    if size is None:
        return None
    reason = "recurrent states" if size.kv_cost.per_row else "an encoder" if size.num_encoder_layers else ""
    have = f"{plan.repository.config.get('model_type')}, which has {reason}" if reason else "keys and values"
    fix = "choose a causal transformer for DRAFT_MODEL"
    return Finding("state", "a model that can take drafts back", have, not reason, fix)


def named(finding: Finding) -> Finding:
    return replace(
        finding, name=f"{NAME}: {finding.name}", fix=finding.fix.replace("MODEL_NAME", "DRAFT_MODEL")
    )
