"""Can the model be shared by NUM_SHARD processes, each on a GPU of its own?

Knows that transformers must have a plan to split it, and that a head cannot be split.
"""

from typing import Any

from transformers import AutoConfig

from checks.finding import Finding
from checks.machine import Machine
from checks.measure.split import rules, splits_heads
from checks.plan import Plan
from inference.model.architecture import needs_code

HEADS = ("num_attention_heads", "num_key_value_heads")
# Their plans in transformers 5.23 compute something else, as two ranks showed of the 120 types that have one.
# Gemma 3n cuts what it computes at its mean, and a rank knows only its part's.
WRONG = frozenset({"gemma3n_text", "hrm_text"})


def check(plan: Plan, machine: Machine) -> Finding | None:
    if plan.shards == 1 or plan.measure is None:
        return None
    found, fits = hindrance(plan, machine)
    if found:
        return Finding("shards", str(plan.shards), found, False, f"NUM_SHARD = {fits}")
    return Finding("shards", str(plan.shards), "a plan to split the model", True)


def hindrance(plan: Plan, machine: Machine) -> tuple[str, int]:
    """Why there cannot be so many shards, empty where there can; and how many there can be."""
    raw, gpus = plan.repository.config, len(machine.gpus)
    kind = str(raw.get("model_type"))
    if plan.device != "cpu" and gpus < plan.shards:
        return f"{gpus} GPUs, and each shard has its own", max(1, gpus)
    if needs_code(raw):
        return f"a model, {kind}, that brings its own code", 1
    text = AutoConfig.for_model(**raw).get_text_config()
    if text.model_type in WRONG:
        return f"a model, {kind}, that transformers splits wrongly", 1
    if not rules(text):
        return f"a model, {kind}, that transformers has no plan to split", 1
    return indivisible(text, plan.shards) if splits_heads(rules(text)) else ("", plan.shards)


def indivisible(config: Any, shards: int) -> tuple[str, int]:
    """As `hindrance`, of the heads alone."""
    try:
        heads = [count for name in HEADS if (count := getattr(config, name, None))]
    except RuntimeError:  # what transformers raises where the layers have each their own
        return "layers with unlike numbers of heads", 1
    fits = next(number for number in range(shards, 0, -1) if not any(count % number for count in heads))
    told = f"heads that do not divide by it: {' and '.join(map(str, heads))} of them"
    return told if fits < shards else "", fits
