"""The share of a model's weights on one tensor-parallel rank, according to transformers' plan.

Knows whether the plan splits the KV heads.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from inference.model.parallel_layers import DIVISIONS, INPUTS, Division, planned_style

# Key projections whose output is not gathered: transformers, distributed/tensor_parallel.py,
# get_kv_heads_per_rank.
KEY_PROJECTIONS = ("k_proj", "qkv_proj", "query_key_value")


def tp_plan_of(config: Any) -> Mapping[str, str]:
    """The tensor-parallel plan of a config's architecture; empty if it has none."""
    return getattr(config.get_text_config(), "base_model_tp_plan", None) or {}


def splits_heads(tp_plan: Mapping[str, str]) -> bool:
    return any(
        name.rpartition(".")[2] in KEY_PROJECTIONS and style == "colwise" for name, style in tp_plan.items()
    )


def first_rank_share(model: Any, num_shard: int) -> float:
    """The fraction of the weights on the first rank, which has the most.

    1 / num_shard if all weights are split evenly, else more.
    """
    total_bytes = rank_bytes = 0
    for name, weight in model.named_parameters():
        style = planned_style(model, name) or planned_style(model, name.rpartition(".")[0])
        total_bytes += weight.nbytes
        rank_bytes += first_rank_bytes(weight, DIVISIONS.get(style), num_shard)
    return rank_bytes / total_bytes


def first_rank_bytes(weight: Tensor, division: Division | None, num_shard: int) -> int:
    """Bytes of the first rank's part. A bias is split only if the output dimension is."""
    if division is None or (weight.dim() == 1 and division.dim == INPUTS):
        return weight.nbytes
    length = weight.shape[max(division.dim, -weight.dim())]
    return weight.nbytes // length * -(-length // num_shard)
