"""What the runners' attention functions have in common."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from inference.model.attention import attend_grouped, effective_kwargs

R, H, G, D, E, N = 2, 6, 2, 8, 4, 5


@pytest.mark.parametrize("q", [1, 3])
def test_grouped_heads_attend_like_repeated_keys(q: int) -> None:
    torch.manual_seed(0)
    query, keys, values = torch.randn(R, H, q, D), torch.randn(R, G, N, D), torch.randn(R, G, N, E)
    mask = torch.rand(R, 1, q, N) > 0.4
    mask[..., 0] = True
    repeated = [data.repeat_interleave(H // G, 1) for data in (keys, values)]
    for each in (mask, None) if q == 1 else (mask,):
        expected = scaled_dot_product_attention(query, *repeated, attn_mask=each, scale=0.3)
        output = attend_grouped(query, keys, values, each, 0.3)
        assert output.shape == (R, H, q, E)
        assert torch.allclose(output, expected, atol=1e-6)


def test_only_arguments_that_may_change_the_result_count() -> None:
    kwargs = {"use_cache": True, "position_bias": None, "head_mask": 1, "a_bias": 2, "dropout": 0.0}
    assert effective_kwargs(kwargs) == ["a_bias", "head_mask"]
