"""Products with packed weights that gradients pass through; the weights themselves have none.

Knows torch's autograd and a weight's matrix. Used in training only: no runner computes gradients.
"""

from typing import Any, Protocol

import torch
from torch import Tensor


class DifferentiableMatrix(Protocol):
    """See PackedMatrix."""

    def linear(self, x: Tensor) -> Tensor: ...

    def input_gradient(self, gradient: Tensor) -> Tensor: ...


class AddingMatrix(Protocol):
    """See DeviceMatrix."""

    def add_linear(self, x: Tensor, total: Tensor) -> None: ...

    def input_gradient(self, gradient: Tensor) -> Tensor: ...


class PackedProduct(torch.autograd.Function):
    """x (…, inputs) → (…, outputs); the gradient of x is the gradient of the output times the weight.

    gradient_dtype: in which the gradient is multiplied
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: DifferentiableMatrix, gradient_dtype: torch.dtype) -> Tensor:
        ctx.matrix, ctx.gradient_dtype = matrix, gradient_dtype
        return matrix.linear(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        x_gradient = ctx.matrix.input_gradient(gradient.to(ctx.gradient_dtype))
        return x_gradient.to(gradient.dtype), None, None


class AddedProduct(torch.autograd.Function):
    """x (…, inputs) times the weight is added to `total` (…, outputs), which is overwritten and returned."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, total: Tensor, matrix: AddingMatrix) -> Tensor:
        ctx.matrix = matrix
        ctx.mark_dirty(total)
        matrix.add_linear(x, total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, None]:
        x_gradient = ctx.matrix.input_gradient(gradients[0]) if ctx.needs_input_grad[0] else None
        return x_gradient, gradients[0], None
