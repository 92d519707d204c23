"""This rank's part of what an adapter changes in modules that several ranks share.

A column-wise layer computes some of the outputs, a row-wise one reads some of the inputs; experts do both.
All others get and return whole tensors on every rank.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, distributed

from inference.model.lora.adapted_experts import AdaptedExperts
from inference.model.lora.base_weight import base_weight, squared_row_norms
from inference.model.lora.delta import LoraDelta, ModuleDelta
from inference.model.lora.low_rank import Products
from inference.model.lora.replaced_module import ReplacedModule
from inference.model.parallel_layers import DIVISIONS, FORWARDS, INPUTS, OUTPUTS, is_dtensor, planned_style

COLWISE, ROWWISE, GATHERED = "colwise", "rowwise", "colwise_gather_output"
SUMMED_EXPERTS = "moe_tp_experts"


class RowwiseLoraDelta(LoraDelta):
    """A LoraDelta whose a is (r, local inputs): the ranks' low-rank outputs are summed."""

    def project(self, products: Products, input: Tensor) -> Tensor:
        low_rank = super().project(products, input)
        distributed.all_reduce(low_rank)
        return low_rank


class SummedExperts(AdaptedExperts):
    """AdaptedExperts of which each rank has a part of every expert: the ranks' outputs are summed."""

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        output: Tensor = super().forward(*args, **kwargs)
        distributed.all_reduce(output)
        return output


def sharding_of(model: Any, name: str) -> str | None:
    """How the ranks share the model's module or parameter `name`; None if one process has all of it."""
    return planned_style(model, name) if distributed.is_initialized() else None


def create_lora_delta(model: Any, name: str, a: Tensor, b: Tensor, bias: Tensor | None = None) -> ModuleDelta:
    """The delta of the model's module `name` on this rank, from the whole a (r, in), b and bias (out, …)."""
    style = sharding_of(model, name)
    if style == COLWISE:
        return LoraDelta(a, local_part(b, 0), None if bias is None else local_part(bias, 0))
    if style == ROWWISE:
        return RowwiseLoraDelta(local_part(a, 1), b, bias)
    return LoraDelta(a, b, bias)


def parameter_part(model: Any, name: str, values: Tensor) -> Tensor:
    """This rank's part of a whole parameter of the module `name`, in the form that the module has it."""
    style = sharding_of(model, name)
    if (style, type(model.get_submodule(name))) not in FORWARDS:
        return values
    dim, num_blocks = DIVISIONS[style]
    if values.dim() == 1 and dim == INPUTS:
        return values
    return local_part(values, max(dim, -values.dim()), num_blocks)


def create_replaced_module(model: Any, name: str, parameters: Mapping[str, Tensor]) -> ReplacedModule:
    """The module with parameters, each a parameter_part, in place of the model's.

    A shared module that is not in FORWARDS computes with whole parameters: its inputs and outputs are whole.
    """
    module = model.get_submodule(name)
    return ReplacedModule(module, parameters, FORWARDS.get((sharding_of(model, name), type(module))))


def expert_pair_part(
    model: Any, name: str, a: Tensor, b: Tensor, *, is_transposed: bool
) -> tuple[Tensor, Tensor]:
    """This rank's part of a (experts, r, in) and b (experts, out, r) of the experts' parameter `name`.

    is_transposed: whether the parameter is (experts, in, out)
    """
    division = DIVISIONS.get(sharding_of(model, name))
    if division is None:
        return a, b
    if (division.dim == OUTPUTS) != is_transposed:
        return a, local_part(b, 1, division.num_blocks)
    return local_part(a, 2, division.num_blocks), b


def experts_type(model: Any, name: str) -> type[AdaptedExperts]:
    """The class for the experts `name` on this rank."""
    return SummedExperts if sharding_of(model, name) == SUMMED_EXPERTS else AdaptedExperts


def row_norms(model: Any, name: str, a: Tensor, b: Tensor) -> Tensor:
    """The length (out,) of each row of the module's weight plus b (out, r) a (r, in); float32, on the CPU."""
    module, style = model.get_submodule(name), sharding_of(model, name)
    if style in (COLWISE, GATHERED):
        return gather_rows(model, squared_row_norms(module, local_part(b, 0) @ a), len(b)).sqrt()
    squares = squared_row_norms(module, b @ (local_part(a, 1) if style == ROWWISE else a))
    return (sum_of_ranks(model, squares) if style == ROWWISE else squares).sqrt()


def output_bias(model: Any, name: str) -> Tensor | None:
    """The linear layer's own bias for the outputs that this rank gets: float32, on the CPU; None: no bias."""
    module = model.get_submodule(name)
    if module.bias is None:
        return None
    bias: Tensor = module.bias.full_tensor() if is_dtensor(module.bias) else module.bias
    bias = bias.detach().float().cpu()
    return gather_rows(model, bias, module.out_features) if sharding_of(model, name) == GATHERED else bias


def output_part(model: Any, name: str, values: Tensor) -> Tensor:
    """The values of the module's outputs (out,) that this rank gets: some of a column-wise layer's."""
    return local_part(values, 0) if sharding_of(model, name) == COLWISE else values


def is_base_weight(model: Any, name: str, values: Tensor) -> bool:
    """Whether the values are the module's whole weight, in the model's dtype; the same on every rank."""
    own = base_weight(model.get_submodule(name)).to("cpu", model.dtype)
    is_equal = torch.equal(parameter_part(model, name, values).to(model.dtype), own)
    if not distributed.is_initialized():
        return is_equal
    num_equal = sum_of_ranks(model, torch.tensor(float(is_equal)))
    return int(num_equal) == distributed.get_world_size()


def gather_rows(model: Any, own_rows: Tensor, size: int) -> Tensor:
    """The `size` values of which each rank has its local_part."""
    values = own_rows.new_zeros(size)
    local_part_view(values, 0).copy_(own_rows)
    return sum_of_ranks(model, values)


def sum_of_ranks(model: Any, values: Tensor) -> Tensor:
    """The sum over all ranks, computed on the model's device."""
    total = values.to(model.device)
    distributed.all_reduce(total)
    return total.to(values.device)


def local_part(values: Tensor, dim: int, num_blocks: int = 1) -> Tensor:
    """This rank's chunk of each block, as torch's Shard(dim) divides: the last ranks may have less."""
    return torch.cat([local_part_view(block, dim) for block in values.chunk(num_blocks, dim)], dim)


def local_part_view(values: Tensor, dim: int) -> Tensor:
    size = values.shape[dim]
    length = -(-size // distributed.get_world_size())
    first = min(size, distributed.get_rank() * length)
    return torch.narrow(values, dim, first, min(length, size - first))
