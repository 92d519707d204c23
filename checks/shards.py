"""Can the model be shared by NUM_SHARD processes, each on a GPU of its own?

Knows that transformers must have a plan to split it, and that a head cannot be split.
"""

from transformers import AutoConfig

from checks.finding import Finding
from checks.machine import Machine
from checks.plan import Plan
from checks.split import rules, splits_heads
from inference.model.architecture import needs_code

HEADS = ("num_attention_heads", "num_key_value_heads")


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
    config = AutoConfig.for_model(**raw)
    if not (plan_to_split := rules(config)):
        return f"a model, {kind}, that transformers has no plan to split", 1
    if not splits_heads(plan_to_split):
        return "", plan.shards
    text = config.get_text_config()
    heads = [count for name in HEADS if (count := getattr(text, name, None))]
    fits = next(number for number in range(plan.shards, 0, -1) if not any(count % number for count in heads))
    told = f"heads that do not divide by it: {' and '.join(map(str, heads))} of them"
    return told if fits < plan.shards else "", fits
