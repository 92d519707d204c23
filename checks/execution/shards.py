"""Checks that the model can be split over NUM_SHARD tensor-parallel processes.

transformers must have a tensor-parallel plan for it, and NUM_SHARD must divide the numbers of heads.
"""

from typing import Any

from transformers import AutoConfig

from checks.machine import Machine
from checks.memory.plan import Plan
from checks.memory.tp_share import splits_heads, tp_plan_of
from inference.finding import Finding, format_count
from inference.model.load.architecture import requires_remote_code

HEAD_COUNT_KEYS = ("num_attention_heads", "num_key_value_heads")
# Model types whose plans in transformers 5.23 give wrong logits: the 120 types with a plan were run on two
# ranks. Gemma 3n sparsifies activations by their mean, and a rank has only the mean of its own part.
WRONG_TP_PLANS = frozenset({"gemma3n_text", "hrm_text"})


def check(plan: Plan, machine: Machine) -> Finding | None:
    if plan.num_shard == 1 or plan.model_size is None:
        return None
    reason, max_shards = find_max_shards(plan, machine)
    if reason:
        return Finding("shards", str(plan.num_shard), reason, False, f"NUM_SHARD = {max_shards}")
    return Finding("shards", str(plan.num_shard), "a tensor-parallel plan", True)


def find_max_shards(plan: Plan, machine: Machine) -> tuple[str, int]:
    """Why the model cannot have plan.num_shard shards, empty if it can; and how many it can have."""
    raw_config, num_gpus = plan.repository.config, len(machine.gpus)
    model_type = str(raw_config.get("model_type"))
    if plan.device != "cpu" and num_gpus < plan.num_shard:
        return f"{format_count(num_gpus, 'GPU')}, and each shard needs its own", max(1, num_gpus)
    if requires_remote_code(raw_config):
        return f"a model type, {model_type}, with code of its own", 1
    text_config = AutoConfig.for_model(**raw_config).get_text_config()
    if text_config.model_type in WRONG_TP_PLANS:
        return f"a model type, {model_type}, that transformers splits wrongly", 1
    if not tp_plan_of(text_config):
        return f"a model type, {model_type}, without a tensor-parallel plan in transformers", 1
    return (
        check_head_counts(text_config, plan.num_shard)
        if splits_heads(tp_plan_of(text_config))
        else ("", plan.num_shard)
    )


def check_head_counts(config: Any, num_shard: int) -> tuple[str, int]:
    """As `find_max_shards`, for the numbers of heads alone."""
    try:
        head_counts = [count for name in HEAD_COUNT_KEYS if (count := getattr(config, name, None))]
    except RuntimeError:  # raised by transformers if the layers differ in it
        return "layers with different numbers of heads", 1
    max_shards = next(
        number for number in range(num_shard, 0, -1) if not any(count % number for count in head_counts)
    )
    reason = f"numbers of heads that it does not divide: {' and '.join(map(str, head_counts))} heads"
    return reason if max_shards < num_shard else "", max_shards
