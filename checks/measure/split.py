"""How much of a model one of several ranks holds, by the plan that transformers has to split it.

Knows the plan's styles: those that split a weight, and whether a head's keys and values go to one rank.
"""

import re
from collections.abc import Mapping
from typing import Any

# transformers, distributed/tensor_parallel.py, ALL_PARALLEL_STYLES: the rest leave a weight whole.
SPLITS = frozenset(
    {
        "colwise",
        "colwise_gather_output",
        "colwise_rep",
        "embedding_colwise",
        "embedding_rowwise",
        "packed_colwise",
        "packed_rowwise",
        "rowwise",
        "rowwise_rep",
        "rowwise_split_input",
    }
)
# The same file, get_kv_heads_per_rank: what makes keys, where they are not gathered again.
KEYS = ("k_proj", "qkv_proj", "query_key_value")


def rules(config: Any) -> Mapping[str, str]:
    """The plan of a config's architecture; empty where it has none."""
    return getattr(config.get_text_config(), "base_model_tp_plan", None) or {}


def splits_heads(plan: Mapping[str, str]) -> bool:
    return any(name.rpartition(".")[2] in KEYS and style == "colwise" for name, style in plan.items())


def share(model: Any, ranks: int) -> float:
    """Of the model's weights, the part that each rank holds: 1 / ranks, and more where some are not split."""
    plan = model.tp_plan
    whole = held = 0
    for name, weight in model.named_parameters():
        general = re.sub(r"\d+", "*", name)
        style = plan.get(general) or plan.get(general.rpartition(".")[0])
        whole += weight.numel()
        held += -(-weight.numel() // ranks) if style in SPLITS else weight.numel()
    return held / whole
