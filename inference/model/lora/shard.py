"""This rank's part of the change of a linear layer that several ranks share.

A column-wise layer computes some of the outputs, a row-wise one reads some of the inputs. All others get and
return whole tensors on every rank.
"""

import re
from typing import Any

import torch
from torch import Tensor, distributed

from inference.model.lora.base_weight import squared_row_norms
from inference.model.lora.delta import LoraDelta, ModuleDelta

COLWISE, ROWWISE, GATHERED = "colwise", "rowwise", "colwise_gather_output"


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


def row_norms(model: Any, name: str, a: Tensor, b: Tensor) -> Tensor:
    """The length (out,) of each row of the module's weight plus b (out, r) a (r, in); float32, on the CPU."""
    module, style = model.get_submodule(name), sharding_of(model, name)
    if style in (COLWISE, GATHERED):
        return gather_rows(squared_row_norms(module, local_part(b, 0) @ a), len(b)).sqrt()
    squares = squared_row_norms(module, b @ (local_part(a, 1) if style == ROWWISE else a))
    if style == ROWWISE:
        distributed.all_reduce(squares)
    return squares.sqrt()


def gather_rows(own_rows: Tensor, size: int) -> Tensor:
    """The `size` values of which each rank has its local_part."""
    values = own_rows.new_zeros(size)
    local_part_view(values, 0).copy_(own_rows)
    distributed.all_reduce(values)
    return values


def output_part(model: Any, name: str, values: Tensor) -> Tensor:
    """The values of the module's outputs (out,) that this rank computes: some of a column-wise layer's."""
    return local_part(values, 0) if sharding_of(model, name) == COLWISE else values


def local_part(values: Tensor, dim: int) -> Tensor:
    """This rank's chunk, as torch's Shard(dim) divides: the last ranks may have less."""
    return local_part_view(values, dim).contiguous()


def local_part_view(values: Tensor, dim: int) -> Tensor:
    size = values.shape[dim]
    length = -(-size // distributed.get_world_size())
    first = min(size, distributed.get_rank() * length)
    return torch.narrow(values, dim, first, min(length, size - first))
