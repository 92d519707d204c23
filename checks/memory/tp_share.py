"""The share of a model's weights on one tensor-parallel rank, according to transformers' plan.

Knows which of the plan's styles split a weight, and whether the KV heads are split.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from inference.model.parallel_layers import planned_style

OUTPUT_DIM, INPUT_DIM = -2, -1  # the dimension of a weight that is split
# transformers, distributed/tensor_parallel.py, ALL_PARALLEL_STYLES. Other styles do not split a weight.
SPLIT_DIMENSIONS: Mapping[str, int] = {
    "colwise": OUTPUT_DIM,
    "colwise_gather_output": OUTPUT_DIM,
    "colwise_rep": OUTPUT_DIM,
    "embedding_colwise": INPUT_DIM,
    "embedding_rowwise": OUTPUT_DIM,
    "packed_colwise": OUTPUT_DIM,
    "packed_rowwise": INPUT_DIM,
    "rowwise": INPUT_DIM,
    "rowwise_rep": INPUT_DIM,
    "rowwise_split_input": INPUT_DIM,
}
# The same file, get_kv_heads_per_rank: key projections whose output is not gathered.
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
        rank_bytes += first_rank_bytes(weight, SPLIT_DIMENSIONS.get(style or ""), num_shard)
    return rank_bytes / total_bytes


def first_rank_bytes(weight: Tensor, dimension: int | None, num_shard: int) -> int:
    """Bytes of the first rank's part. A bias is split only if the output dimension is."""
    if dimension is None or (weight.dim() == 1 and dimension == INPUT_DIM):
        return weight.nbytes
    length = weight.shape[max(dimension, -weight.dim())]
    return weight.nbytes // length * -(-length // num_shard)
