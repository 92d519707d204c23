"""The Triton kernel of rotary embedding and store computes what torch does, in Triton's interpreter."""

from dataclasses import replace

import pytest
import torch

from inference.model.paged.kernels.shapes import AttentionShape
from inference.model.paged.kernels.store import rotates_equally, select_rotary_store
from inference.model.paged.kv_pool import RotaryStoreKernel, rotate_and_store
from tests.tiny_models.families import tiny

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
LLAMA = AttentionShape(DEVICE, torch.float16, 8, 2, 32, 32, 1.0, None, None, None)
SHAPES = {
    "llama": LLAMA,
    "single precision": replace(LLAMA, dtype=torch.float32),
    "seven heads to one of an odd width": replace(LLAMA, num_heads=7, num_kv_heads=1, head_dim=20),
    "values of another width": replace(LLAMA, num_heads=6, num_kv_heads=6, head_dim=24, value_head_dim=16),
}


@pytest.fixture(scope="module")
def triton_kernel() -> RotaryStoreKernel:
    pytest.importorskip("triton", reason="comes only with the CUDA build of torch")
    from inference.model.paged.kernels.triton_rotary_store import rotate_and_store

    return rotate_and_store


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_the_triton_kernel_computes_the_same_as_torch(
    triton_kernel: RotaryStoreKernel, shape: AttentionShape
) -> None:
    assert rotates_equally(triton_kernel, shape)


@pytest.mark.parametrize("argument", ["query", "key", "cos", "sin"])
def test_a_kernel_that_rotates_something_else_is_found(argument: str) -> None:
    names = ("query", "key", "value", "cos", "sin", "keys", "values", "slot_mapping")

    def wrong(*args: torch.Tensor) -> torch.Tensor:
        arguments = dict(zip(names, args, strict=True))
        return rotate_and_store(**arguments | {argument: 1.02 * arguments[argument]})

    assert rotates_equally(rotate_and_store, LLAMA)
    assert not rotates_equally(wrong, LLAMA)


def test_a_model_on_the_cpu_has_no_kernel_of_its_own() -> None:
    assert select_rotary_store(tiny("llama").cpu()) is None
