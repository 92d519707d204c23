"""DeviceMatrix: the native library's quantized values on a torch device, and products with them."""

import pytest
import torch
from torch.nn.functional import linear

from inference.model.quantization.device_matrix import DeviceMatrix
from inference.model.quantization.schemes import device_matrix_bytes
from inference.model.quantization.words import integers_of, pack_words
from inference.native.build import NativeUnavailable
from inference.native.packed_matrix import PackedMatrix, ensure_library
from inference.native.structs import NativeDtype

OUTPUTS, INPUTS, ROWS = 48, 200, 5  # the last group has 8 inputs
KINDS = (NativeDtype.INT8, NativeDtype.INT4)


def make_weight() -> torch.Tensor:
    return torch.randn(OUTPUTS, INPUTS, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("bits", [4, 8])
def test_words_hold_all_integers(bits: int) -> None:
    lowest = -(1 << (bits - 1))
    integers = (torch.arange(3 * 77).view(3, 77) % (1 << bits) + lowest).to(torch.int8)
    words = pack_words(integers, bits)
    assert words.dtype == torch.int32 and words.shape[1] == -(-77 // (1024 // bits)) * 32
    assert torch.equal(integers_of(words, bits, 77), integers)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_values_are_those_of_the_native_library(kind: NativeDtype, dtype: torch.dtype) -> None:
    """Except for ties, which sums in another order decide otherwise: the error is the same."""
    try:
        ensure_library()
    except NativeUnavailable as reason:
        pytest.skip(f"no native library: {reason}")
    weight = torch.randn(256, 512, generator=torch.Generator().manual_seed(1)).to(dtype)
    weight[7] = 0  # its scale is 0
    native, device = (
        kind_of.pack(weight, kind).unpack(torch.float32) for kind_of in (PackedMatrix, DeviceMatrix)
    )
    errors = [(values - weight.float()).square().mean() for values in (native, device)]
    assert (native == device).float().mean() > 0.99
    assert abs(errors[1] / errors[0] - 1) < 1e-4


@pytest.mark.parametrize("kind", [*KINDS, NativeDtype.F32])
@pytest.mark.parametrize("has_bias", [False, True])
def test_products_are_those_of_the_unpacked_weight(
    kind: NativeDtype, has_bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.model.quantization.device_matrix.BLOCK_VALUES", 20 * INPUTS)
    bias = torch.arange(OUTPUTS).float() if has_bias else None
    matrix = DeviceMatrix.pack(make_weight(), kind, bias)
    weight, x, gradient = (
        matrix.unpack(torch.float32),
        torch.randn(2, ROWS, INPUTS),
        torch.randn(ROWS, OUTPUTS),
    )
    # Sums of 200 products with roundings in another order.
    torch.testing.assert_close(matrix.linear(x), linear(x, weight, bias), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(matrix.input_gradient(gradient), gradient @ weight, rtol=1e-5, atol=1e-4)
    ids = torch.tensor([[3, 0], [47, 3]])
    assert torch.equal(matrix.rows(ids), weight[ids])


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [1, 2, 17, 128, 300])
def test_kernels_on_a_gpu_multiply_as_torch_does(kind: NativeDtype, dtype: torch.dtype, rows: int) -> None:
    weight, bias = make_weight().cuda(), torch.randn(OUTPUTS).to("cuda", dtype)
    matrix = DeviceMatrix.pack(weight, kind, bias)
    assert matrix.nbytes < weight.numel() * (1.5 if kind is NativeDtype.INT8 else 1.0)
    x = torch.randn(rows, INPUTS, device="cuda").to(dtype)
    expected = x.double() @ matrix.unpack(torch.float32).double().T + bias.double()
    error = (matrix.linear(x).double() - expected).abs().max() / expected.std()
    assert error < (5e-3 if dtype is torch.float32 else 3e-2)


@pytest.mark.parametrize("kind", [*KINDS, NativeDtype.BF16])
@pytest.mark.parametrize("inputs", [96, 256, 896])
def test_its_bytes_are_predicted(kind: NativeDtype, inputs: int) -> None:
    matrix = DeviceMatrix.pack(torch.randn(5, inputs, dtype=torch.bfloat16), kind)
    assert device_matrix_bytes(kind, 5, inputs) == matrix.nbytes
