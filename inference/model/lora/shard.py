"""This rank's part of a low-rank pair, for a linear layer that several ranks share.

A column-wise layer computes some of the outputs, a row-wise one reads some of the inputs. All others get and
return whole tensors on every rank.
"""

import re
from typing import Any

import torch
from torch import Tensor, distributed

from inference.model.lora.delta import Delta, LoraDelta


class RowwiseLoraDelta(LoraDelta):
    """A LoraDelta whose a is (r, local inputs): the ranks' low-rank outputs are summed."""

    def project(self, input: Tensor) -> Tensor:
        low_rank = super().project(input)
        distributed.all_reduce(low_rank)
        return low_rank


def create_lora_delta(model: Any, name: str, a: Tensor, b: Tensor) -> Delta:
    """The delta of the model's module `name` on this rank. a (r, in), b (out, r): the whole pair."""
    style = model.tp_plan.get(re.sub(r"\d+", "*", name)) if distributed.is_initialized() else None
    if style == "colwise":
        return LoraDelta(a, local_part(b, 0))
    if style == "rowwise":
        return RowwiseLoraDelta(local_part(a, 1), b)
    return LoraDelta(a, b)


def local_part(values: Tensor, dim: int) -> Tensor:
    """This rank's chunk, as torch's Shard(dim) divides: the last ranks may have less."""
    size = values.shape[dim]
    length = -(-size // distributed.get_world_size())
    first = min(size, distributed.get_rank() * length)
    return torch.narrow(values, dim, first, min(length, size - first)).contiguous()
