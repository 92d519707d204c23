"""The weight that the model serves in a module, whether it is plain, packed or quantized."""

from typing import Any

from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from inference.model.parallel_layers import is_dtensor
from inference.model.quantization.packed_tensor import PackedTensor


def base_weight(module: nn.Module) -> Tensor:
    """The values of the module's weight, in its dtype.

    A plain layer that ranks share has this rank's part; other modules have the whole weight on every rank.
    """
    weight: Any = module.weight
    if isinstance(weight, PackedTensor):
        return weight.values()
    values: Tensor = (weight.full_tensor() if is_dtensor(weight) else weight).detach()
    return values


def squared_row_norms(module: nn.Module, change: Tensor) -> Tensor:
    """The squared length (out,) of each row of the layer's weight plus `change` (out, in).

    Counts the rows and columns that this rank has; float32, on the CPU.
    """
    weight = base_weight(module).float().cpu()
    rows = weight.T if isinstance(module, Conv1D) else weight  # a Conv1D has (in, out)
    return (rows + change).square().sum(1)
