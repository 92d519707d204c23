"""The Triton products with quantized weights, in Triton's interpreter where there is no GPU."""

import pytest
import torch

if torch.cuda.is_available():
    pytest.skip("the kernels are compiled here: see test_device_matrix.py", allow_module_level=True)
pytest.importorskip("triton", reason="comes only with the CUDA build of torch")

from inference.model.quantization import triton_matmul
from inference.model.quantization.dequantize import is_right


@pytest.mark.parametrize("bits", [4, 8])
def test_kernels_compute_what_torch_does(bits: int) -> None:
    """In float32: the interpreter multiplies bfloat16 wrongly."""
    assert is_right(triton_matmul, torch.device("cpu"), torch.float32, bits)
