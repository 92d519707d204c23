"""The Triton store kernel writes what torch does, in Triton's interpreter where there is no GPU."""

import pytest
import torch

from inference.model.paged.kernels.shapes import AttentionShape
from inference.model.paged.kernels.store import select_store, stores_equally
from inference.model.paged.kv_pool import StoreKernel, store_by_index
from tests.tiny_models.families import tiny

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
LLAMA = AttentionShape(DEVICE, torch.float16, 8, 2, 32, 32, 1.0, None, None, None)
SHAPES = {
    "llama": LLAMA,
    "one odd head": AttentionShape(DEVICE, torch.float32, 4, 1, 20, 20, 1.0, None, None, None),
    "values of another width": AttentionShape(DEVICE, torch.float16, 6, 6, 24, 16, 1.0, None, None, None),
}


@pytest.fixture(scope="module")
def triton_store() -> StoreKernel:
    pytest.importorskip("triton", reason="comes only with the CUDA build of torch")
    from inference.model.paged.kernels.triton_store import store

    return store


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_the_triton_kernel_writes_the_same_as_torch(triton_store: StoreKernel, shape: AttentionShape) -> None:
    assert stores_equally(triton_store, shape)


def test_a_kernel_that_writes_something_else_is_found() -> None:
    def swapped(
        key: torch.Tensor,
        value: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        slot_mapping: torch.Tensor,
    ) -> None:
        store_by_index(value, key, keys, values, slot_mapping)

    assert stores_equally(store_by_index, LLAMA)
    assert not stores_equally(swapped, LLAMA)


def test_a_model_on_the_cpu_uses_torch() -> None:
    assert select_store(tiny("llama").cpu()) is store_by_index
