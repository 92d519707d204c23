"""A linear layer with a LoRA adapter, computed in the dtype of its inputs, as the server computes it.

peft casts the inputs to float32, the dtype of the trained weights, and keeps the copies for the backward
pass. Knows peft's layer; other kinds of adapters stay with peft.
"""

from typing import Any

import torch
from peft.tuners.lora import Linear
from torch import Tensor, nn


class LoraProduct(torch.autograd.Function):
    """Adds (x Aᵀ) (s B)ᵀ to `output`, which may be overwritten.

    x (…, in), output (…, out), a (r, in), b (out, r), which may have another dtype than x
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, output: Tensor, a: Tensor, b: Tensor, scaling: float) -> Tensor:
        rows = x.flatten(0, -2)
        a_x, b_x = a.to(x.dtype), (b * scaling).to(x.dtype)
        low_rank = rows @ a_x.T  # (N, r)
        ctx.save_for_backward(x, low_rank, a_x, b_x)
        ctx.scaling, ctx.dtype = scaling, a.dtype
        if output._is_view():  # as a layer with a bias returns: torch cannot differentiate overwritten views
            output = output.clone()
        else:
            ctx.mark_dirty(output)
        output.view(-1, output.shape[-1]).addmm_(low_rank, b_x.T)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, Tensor, Tensor, None]:
        x, low_rank, a_x, b_x = ctx.saved_tensors
        gradient = gradients[0].flatten(0, -2)  # (N, out)
        inner = gradient @ b_x  # (N, r)
        x_gradient = (inner @ a_x).view_as(x) if ctx.needs_input_grad[0] else None
        a_gradient = (inner.T @ x.flatten(0, -2)).to(ctx.dtype)
        b_gradient = (low_rank.T @ gradient).T.to(ctx.dtype) * ctx.scaling
        return x_gradient, gradients[0], a_gradient, b_gradient, None


class LoraLinear(Linear):
    """peft's layer, with LoraProduct for plain LoRA."""

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        (name, *others) = self.active_adapters
        if args or kwargs or others or not self._is_plain(name):
            return super().forward(x, *args, **kwargs)
        a, b = self.lora_A[name].weight, self.lora_B[name].weight
        return LoraProduct.apply(x, self.base_layer(x), a, b, self.scaling[name])

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
