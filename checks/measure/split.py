"""How much of a model one of several ranks holds, by the plan that transformers has to split it.

Knows the plan's styles: those that split a weight, and whether a head's keys and values go to one rank.
"""

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor

OUTPUTS, INPUTS = -2, -1  # the dimension of a weight that is cut
# transformers, distributed/tensor_parallel.py, ALL_PARALLEL_STYLES: the rest leave a weight whole.
CUTS: Mapping[str, int] = {
    "colwise": OUTPUTS,
    "colwise_gather_output": OUTPUTS,
    "colwise_rep": OUTPUTS,
    "embedding_colwise": INPUTS,
    "embedding_rowwise": OUTPUTS,
    "packed_colwise": OUTPUTS,
    "packed_rowwise": INPUTS,
    "rowwise": INPUTS,
    "rowwise_rep": INPUTS,
    "rowwise_split_input": INPUTS,
}
# The same file, get_kv_heads_per_rank: what makes keys, where they are not gathered again.
KEYS = ("k_proj", "qkv_proj", "query_key_value")


def rules(config: Any) -> Mapping[str, str]:
    """The plan of a config's architecture; empty where it has none."""
    return getattr(config.get_text_config(), "base_model_tp_plan", None) or {}


def splits_heads(plan: Mapping[str, str]) -> bool:
    return any(name.rpartition(".")[2] in KEYS and style == "colwise" for name, style in plan.items())


def share(model: Any, ranks: int) -> float:
    """Of the model's weights, the part that the first rank holds, of which none has more: 1 / ranks, and more
    where some are not split, or not evenly."""
    plan = model.tp_plan
    whole = held = 0
    for name, weight in model.named_parameters():
        general = re.sub(r"\d+", "*", name)
        style = plan.get(general) or plan.get(general.rpartition(".")[0])
        whole += weight.nbytes
        held += cut(weight, CUTS.get(style), ranks)
    return held / whole


def cut(weight: Tensor, dimension: int | None, ranks: int) -> int:
    """Bytes of the first rank's part. What is added to outputs is cut where they are."""
    if dimension is None or (weight.dim() == 1 and dimension == INPUTS):
        return weight.nbytes
    length = weight.shape[max(dimension, -weight.dim())]
    return weight.nbytes // length * -(-length // ranks)
