"""Blocks of 8 bits: what they keep of a head, their bytes, and a runner over pages of them."""

import pytest
import torch

from inference.model.paged.kv_pool import INT8, KVPool
from inference.model.paged.q8_0 import dequantize, head_bytes, quantize
from inference.model.paged.runner import PagedRunner
from tests.tiny_models.families import tiny


@pytest.mark.parametrize("head_dim", (18, 32, 80, 128))
def test_a_value_is_kept_up_to_little_more_than_half_an_integer(head_dim: int) -> None:
    states = torch.randn(50, 3, head_dim) * torch.logspace(-3, 3, 50)[:, None, None]
    blocks = quantize(states)
    assert blocks.shape == (50, 3, head_bytes(head_dim)) and blocks.dtype == torch.uint8
    read_back = dequantize(blocks, head_dim, torch.float32)
    for first in range(0, head_dim, 32):
        block = states[..., first : first + 32]
        most = block.abs().amax(-1, keepdim=True) / 127 * 0.57  # the scale is a float16
        errors = (read_back[..., first : first + 32] - block).abs()
        assert (errors <= most + 127 * 2**-25).all()


def test_a_large_value_costs_its_own_block_only() -> None:
    states = torch.randn(1, 64)
    states[0, 0] = 1000
    errors = (dequantize(quantize(states), 64, torch.float32) - states).abs()
    assert errors[0, :32].max() > 0.5 and errors[0, 32:].max() < 0.02


def test_zeros_and_values_beyond_float16_are_finite_numbers() -> None:
    assert not dequantize(quantize(torch.zeros(2, 32)), 32, torch.float32).any()
    assert dequantize(quantize(torch.full((2, 32), 1e9)), 32, torch.float32).isfinite().all()
    assert not dequantize(torch.zeros(2, 68, dtype=torch.uint8), 40, torch.bfloat16).any()


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_a_block_with_a_value_that_is_not_finite_is_not_a_number(value: float) -> None:
    states = torch.ones(1, 64)
    states[0, 5] = value
    read_back = dequantize(quantize(states), 64, torch.float32)
    assert read_back[0, :32].isnan().all() and read_back[0, 32:].isfinite().all()


@pytest.mark.parametrize(("head_dim", "num_bytes"), [(16, 34), (32, 34), (64, 68), (80, 102), (128, 136)])
def test_a_head_takes_34_bytes_for_32_values(head_dim: int, num_bytes: int) -> None:
    assert head_bytes(head_dim) == num_bytes


@pytest.mark.parametrize("name", ("gpt_neox", "mixtral", "gpt_oss", "deepseek_v3"))
def test_pages_of_blocks_take_what_the_pool_says(name: str) -> None:
    """Among them a model whose keys and values have different widths."""
    pool = KVPool(8, kv_dtype=INT8)
    PagedRunner(tiny(name), pool, max_sequences=2, context=64).probe()
    for kv in pool.layers.values():
        assert kv.head_dims is not None and kv.keys.dtype == torch.uint8
        assert [kv.keys.shape[-1], kv.values.shape[-1]] == [head_bytes(each) for each in kv.head_dims]
    token_bytes = sum(kv.keys[0, 0].numel() + kv.values[0, 0].numel() for kv in pool.layers.values())
    assert pool.cost().per_recent_token == token_bytes
