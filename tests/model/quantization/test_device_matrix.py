"""A matrix in the memory of a device has the values of the native library, and torch's products with them."""

import os

import pytest
import torch
from torch import Tensor

from inference.model.quantization import device_matrix
from inference.model.quantization.dequantize import from_int4_by_torch
from inference.model.quantization.device_matrix import DeviceMatrix
from inference.model.quantization.round_weights import round_to_int4
from inference.native.build import NativeUnavailable
from inference.native.packed_matrix import PackedMatrix, ensure_library
from inference.native.structs import NativeDtype

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
OUTPUTS, INPUTS = 70, 96
QUANTIZED = (NativeDtype.INT8, NativeDtype.INT4)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_matrix, "BLOCK_VALUES", 32 * INPUTS)


def random_weight(inputs: int = INPUTS) -> Tensor:
    weight = torch.randn(OUTPUTS, inputs, generator=torch.Generator().manual_seed(0))
    weight[3] = 0
    return weight


@pytest.mark.parametrize("inputs", [INPUTS, 40], ids=["whole groups", "padded"])
@pytest.mark.parametrize("dtype", QUANTIZED, ids=str)
def test_the_values_are_those_of_the_native_library(dtype: NativeDtype, inputs: int) -> None:
    try:
        ensure_library()
    except NativeUnavailable as reason:
        pytest.skip(f"no native library: {reason}")
    weight = random_weight(inputs)
    expected = PackedMatrix.pack(weight, dtype).unpack()
    values = DeviceMatrix.pack(weight.to(DEVICE), dtype).unpack(torch.float32).cpu()
    assert (values != expected).float().mean() < 1e-3  # ties of rounding, which may go either way
    assert (values - expected).abs().max() < 0.5


@pytest.mark.parametrize("values_dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dtype", list(NativeDtype), ids=str)
def test_products_are_those_of_the_dequantized_weight(dtype: NativeDtype, values_dtype: torch.dtype) -> None:
    bias = torch.randn(OUTPUTS).to(DEVICE, values_dtype)
    matrix = DeviceMatrix.pack(random_weight().to(DEVICE, values_dtype), dtype, bias)
    weight = matrix.unpack(torch.float32)
    x, gradient = (torch.randn(2, 5, size).to(DEVICE, values_dtype) for size in (INPUTS, OUTPUTS))
    tolerance = 1e-4 if values_dtype is torch.float32 else 0.1
    expected = x.float() @ weight.T + bias.float()
    assert torch.allclose(matrix.linear(x).float(), expected, rtol=tolerance, atol=tolerance)
    products = matrix.input_gradient(gradient).float()
    assert torch.allclose(products, gradient.float() @ weight, rtol=tolerance, atol=5 * tolerance)
    ids = torch.tensor([[3, 69], [0, 1]], device=DEVICE)
    assert torch.equal(matrix.rows(ids), weight[ids])


def test_four_bits_take_an_eighth_of_float32_and_their_scales() -> None:
    matrix = DeviceMatrix.pack(random_weight(), NativeDtype.INT4)
    assert matrix.nbytes == OUTPUTS * INPUTS // 2 + 2 * OUTPUTS * INPUTS // 32


def test_the_triton_kernel_dequantizes_as_torch_does() -> None:
    if DEVICE.type == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported
    pytest.importorskip("triton", reason="comes only with the CUDA build of torch")
    from inference.model.quantization import triton_dequantize

    values, scales = round_to_int4(random_weight().to(DEVICE))
    weight = triton_dequantize.from_int4(values, scales, torch.float32)
    assert torch.equal(weight, from_int4_by_torch(values, scales, torch.float32))
