"""Each way to compute a low-rank pair gives the same outputs; number of tokens and dtype choose one."""

import pytest
import torch

from inference.model.lora.low_rank import (
    IN_DTYPE,
    IN_FLOAT32,
    MAX_SMALL_TOKENS,
    NATIVE,
    Products,
    products_for,
)
from inference.native.library import available


def test_few_tokens_in_bfloat16_are_computed_by_native_code_or_in_float32() -> None:
    rows = torch.zeros(MAX_SMALL_TOKENS + 1, 8, dtype=torch.bfloat16)
    small = rows[1:]
    assert products_for(small, small) is (NATIVE if available() else IN_FLOAT32)
    assert products_for(small.half(), small.half()) is IN_FLOAT32
    assert products_for(small.float(), small.float()) is IN_DTYPE
    assert products_for(rows, rows) is IN_DTYPE


@pytest.mark.parametrize("products", [NATIVE, IN_FLOAT32], ids=["native", "float32"])
def test_outputs_are_those_of_products_in_the_dtype(products: Products) -> None:
    if products is NATIVE and not available():
        pytest.skip("there is no native library")
    x, a, b_t, output = (
        torch.randn(shape, generator=torch.Generator().manual_seed(1)).bfloat16()
        for shape in ((3, 24), (4, 24), (4, 56), (3, 56))
    )
    expected = IN_DTYPE.add(IN_DTYPE.project(x, a), b_t, output.clone())
    changed = products.add(products.project(x, a), b_t, output)
    assert torch.allclose(changed.float(), expected.float(), rtol=2e-2, atol=2e-2)
