"""This rank's part of the change of a linear layer that several ranks share.

A column-wise layer computes some of the outputs, a row-wise one reads some of the inputs. All others get and
return whole tensors on every rank.
"""

import re
from typing import Any

import torch
from torch import Tensor, distributed

from inference.model.lora.delta import LoraDelta, ModuleDelta

COLWISE, ROWWISE = "colwise", "rowwise"


class RowwiseLoraDelta(LoraDelta):
    """A LoraDelta whose a is (r, local inputs): the ranks' low-rank outputs are summed."""

    def project(self, input: Tensor, a_t: Tensor) -> Tensor:
        low_rank = super().project(input, a_t)
        distributed.all_reduce(low_rank)
        return low_rank


def sharding_of(model: Any, name: str) -> str | None:
    """How the ranks share the model's module `name`; None if one process has all of it."""
    style: str | None = model.tp_plan.get(re.sub(r"\d+", "*", name)) if distributed.is_initialized() else None
    return style


def create_lora_delta(model: Any, name: str, a: Tensor, b: Tensor, bias: Tensor | None = None) -> ModuleDelta:
    """The delta of the model's module `name` on this rank, from the whole a (r, in), b and bias (out, …)."""
    style = sharding_of(model, name)
    if style == COLWISE:
        return LoraDelta(a, local_part(b, 0), None if bias is None else local_part(bias, 0))
    if style == ROWWISE:
        return RowwiseLoraDelta(local_part(a, 1), b, bias)
    return LoraDelta(a, b, bias)


def local_part(values: Tensor, dim: int) -> Tensor:
    """This rank's chunk, as torch's Shard(dim) divides: the last ranks may have less."""
    size = values.shape[dim]
    length = -(-size // distributed.get_world_size())
    first = min(size, distributed.get_rank() * length)
    return torch.narrow(values, dim, first, min(length, size - first)).contiguous()
