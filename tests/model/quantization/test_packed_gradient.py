"""Gradients pass through products with packed weights as through those with the dequantized weights."""

import pytest
import torch
from torch import nn
from torch.nn.functional import linear

from inference.model.quantization.packed_tensor import PackedWeight
from inference.native.build import NativeUnavailable
from inference.native.packed_matrix import PackedMatrix, ensure_library
from inference.native.structs import NativeDtype

OUTPUTS, INPUTS = 1100, 96  # more rows than are dequantized at once

try:
    ensure_library()
except NativeUnavailable as reason:
    pytest.skip(f"no native library: {reason}", allow_module_level=True)


def packed_weight(dtype: NativeDtype, values_dtype: torch.dtype) -> PackedWeight:
    torch.manual_seed(0)
    matrix = PackedMatrix.pack(torch.randn(OUTPUTS, INPUTS), dtype)
    return PackedWeight(matrix, (OUTPUTS, INPUTS), values_dtype, None, False)


@pytest.mark.parametrize("values_dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dtype", [NativeDtype.INT8, NativeDtype.INT4, NativeDtype.F32])
def test_the_gradient_is_that_of_the_dequantized_weight(
    dtype: NativeDtype, values_dtype: torch.dtype
) -> None:
    weight = packed_weight(dtype, values_dtype)
    x = torch.randn(2, 5, INPUTS, dtype=values_dtype, requires_grad=True)
    upstream = torch.randn(2, 5, OUTPUTS, dtype=values_dtype)
    (gradient,) = torch.autograd.grad(linear(x, weight), x, upstream)
    (expected,) = torch.autograd.grad(linear(x, weight.values()), x, upstream)
    tolerance = 1e-4 if values_dtype is torch.float32 else 0.05
    assert gradient.dtype == values_dtype
    assert (gradient - expected).abs().max() <= tolerance * expected.abs().max()


def test_in_another_dtype_the_gradient_is_multiplied_in_the_dtype_of_the_weight() -> None:
    weight = packed_weight(NativeDtype.INT8, torch.bfloat16).with_dtype(torch.float32)
    x, upstream = torch.randn(3, INPUTS, requires_grad=True), torch.randn(3, OUTPUTS)
    output = linear(x, weight)
    (gradient,) = torch.autograd.grad(output, x, upstream)
    expected = weight.matrix.input_gradient(upstream.bfloat16())
    assert (output.dtype, gradient.dtype, expected.dtype) == (torch.float32, torch.float32, torch.bfloat16)
    assert torch.equal(gradient, expected.float())
    (transposed,) = torch.autograd.grad(x @ weight.T, x, upstream)
    assert torch.equal(transposed, gradient)


def test_a_module_trains_through_a_packed_weight() -> None:
    module = nn.Linear(INPUTS, OUTPUTS, bias=False)
    module.weight = nn.Parameter(packed_weight(NativeDtype.INT8, torch.float32), requires_grad=False)
    scale = torch.ones(INPUTS, requires_grad=True)
    module(torch.ones(3, INPUTS) * scale).sum().backward()
    assert scale.grad is not None
    assert torch.allclose(scale.grad, 3 * module.weight.values().sum(0), atol=1e-3)


def test_without_gradients_the_product_is_plain() -> None:
    weight = packed_weight(NativeDtype.INT8, torch.float32)
    x = torch.randn(2, INPUTS, requires_grad=True)
    with torch.no_grad():
        assert linear(x, weight).grad_fn is None
    assert linear(x.detach(), weight).grad_fn is None
