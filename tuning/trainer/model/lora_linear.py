"""A linear layer with a LoRA adapter, computed in the dtype of its inputs, as the server computes it.

peft casts the inputs to float32, the dtype of the trained weights, and keeps the copies for the backward
pass. Knows peft's layer; other kinds of adapters stay with peft.
"""

from typing import Any

import torch
from peft.tuners.lora import Linear
from torch import Tensor, nn

from inference.model.quantization.device_matrix import DeviceMatrix
from inference.model.quantization.packed_gradient import AddedProduct
from inference.model.quantization.packed_tensor import PackedWeight


class LoraProduct(torch.autograd.Function):
    """Adds (x Aᵀ) (s B)ᵀ to `output`, which may be overwritten; None: it is 0.

    x (…, in), output (…, out), a (r, in), b (out, r), which may have another dtype than x
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, output: Tensor | None, a: Tensor, b: Tensor, scaling: float) -> Tensor:
        rows = x.flatten(0, -2)
        a_x, b_x = a.to(x.dtype), (b * scaling).to(x.dtype)
        low_rank = rows @ a_x.T  # (N, r)
        ctx.save_for_backward(x, low_rank, a_x, b_x)
        ctx.scaling, ctx.dtype, ctx.adds = scaling, a.dtype, output is not None
        if output is None:
            output = x.new_empty(*x.shape[:-1], len(b_x))  # no view, which torch could not overwrite
            torch.mm(low_rank, b_x.T, out=output.view(-1, len(b_x)))
            return output
        if output._is_view():  # as a layer with a bias returns: torch cannot differentiate overwritten views
            output = output.clone()
        else:
            ctx.mark_dirty(output)
        output.view(-1, output.shape[-1]).addmm_(low_rank, b_x.T)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor, Tensor, None]:
        x, low_rank, a_x, b_x = ctx.saved_tensors
        gradient = gradients[0].flatten(0, -2)  # (N, out)
        inner = gradient @ b_x  # (N, r)
        x_gradient = (inner @ a_x).view_as(x) if ctx.needs_input_grad[0] else None
        a_gradient = (inner.T @ x.flatten(0, -2)).to(ctx.dtype)
        b_gradient = (low_rank.T @ gradient).T.to(ctx.dtype) * ctx.scaling
        return x_gradient, gradients[0] if ctx.adds else None, a_gradient, b_gradient, None


class LoraLinear(Linear):
    """peft's layer, with LoraProduct for plain LoRA."""

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        (name, *others) = self.active_adapters
        if args or kwargs or others or not self._is_plain(name):
            return super().forward(x, *args, **kwargs)
        a, b = self.lora_A[name].weight, self.lora_B[name].weight
        matrix = self._device_matrix(x)
        if matrix is None:
            return LoraProduct.apply(x, self.base_layer(x), a, b, self.scaling[name])
        # The frozen product comes last: a layer that recomputes its activations stops before it.
        return AddedProduct.apply(x, LoraProduct.apply(x, None, a, b, self.scaling[name]), matrix)

    def _device_matrix(self, x: Tensor) -> DeviceMatrix | None:
        """The frozen weight's matrix on a GPU; None for other weights."""
        weight = self.base_layer.weight
        if not isinstance(weight, PackedWeight) or weight.is_transposed or weight.values_dtype != x.dtype:
            return None
        return weight.matrix if isinstance(weight.matrix, DeviceMatrix) else None

    def _is_plain(self, name: str) -> bool:
        """Whether the adapter is here and in effect, and is no more than A and B."""
        return (
            name in self.lora_A
            and not self.disable_adapters
            and not self.merged
            and name not in self.lora_variant
            and self.lora_B[name].bias is None
            and isinstance(self.lora_dropout[name], nn.Identity)
        )
