"""PackedLinear: a linear layer that calls its packed matrix, without the detour over a tensor subclass.

Torch's compiler cannot trace the subclass. Knows modules; quantize.py says which weights are packed.
"""

from typing import Any

from torch import Tensor, nn

from inference.model.quantization.packed_tensor import PackedWeight, WeightMatrix


class PackedLinear(nn.Linear):
    """An nn.Linear whose weight is packed. matrix: the weight's, which also adds the bias."""

    matrix: WeightMatrix

    def forward(self, hidden: Tensor) -> Tensor:
        return self.matrix.linear(hidden)


def call_matrices(model: Any) -> None:
    """Turn the model's linear layers with packed weights into PackedLinear."""
    for module in model.modules():
        if type(module) is nn.Linear and isinstance(module.weight, PackedWeight):
            module.__class__ = PackedLinear
            module.__dict__["matrix"] = module.weight.matrix
