"""Attention over grouped keys and values against transformers' SDPA attention."""

import pytest
import torch
from torch import nn

from inference.model.batch import make_batch
from inference.model.contiguous.attention import SDPA, attend
from inference.model.contiguous.call import ForwardCall, current_call
from inference.model.contiguous.host_calls import plan_calls
from inference.model.forward_pass.forward_context import ForwardContext, set_forward_context

R, H, G, D, N = 2, 6, 2, 8, 5


@pytest.fixture
def call() -> ForwardCall:
    (result,), _ = plan_calls(
        make_batch([1, 2], (0, 1, 2), (4, 2), (0, 1), (), page_size=8), 32, torch.device("cpu")
    )
    return result


def tensors(width: int) -> tuple[nn.Module, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    module = nn.Module()
    module.num_key_value_groups = H // G
    query, key, value = torch.randn(R, H, width, D), torch.randn(R, G, N, D), torch.randn(R, G, N, D)
    mask = torch.rand(R, 1, width, N) > 0.4
    mask[..., 0] = True
    return module, query, key, value, mask


@pytest.mark.parametrize("width", [1, 3])
def test_a_folded_group_attends_like_repeated_keys(width: int, call: ForwardCall) -> None:
    module, query, key, value, mask = tensors(width)
    repeated = SDPA(module, query, key, value, mask, scaling=0.3)[0]
    with set_forward_context(call):
        folded = attend(module, query, key, value, mask, scaling=0.3, sliding_window=4)[0]
    assert folded.shape == (R, width, H, D)
    assert torch.allclose(folded, repeated, atol=1e-6)


def test_one_query_needs_no_mask(call: ForwardCall) -> None:
    module, query, key, value, _ = tensors(1)
    repeated = SDPA(module, query, key, value, None, scaling=0.3)[0]
    with set_forward_context(call):
        folded = attend(module, query, key, value, None, scaling=0.3)[0]
    assert torch.allclose(folded, repeated, atol=1e-6)


def test_a_bias_is_left_to_transformers(call: ForwardCall) -> None:
    module, query, key, value, mask = tensors(3)
    bias = torch.randn(1, H, 3, N)
    biased = SDPA(module, query, key, value, mask, position_bias=bias)[0]
    with set_forward_context(call):
        assert torch.equal(attend(module, query, key, value, mask, position_bias=bias)[0], biased)


def test_a_call_ends_inside_a_forward_pass_of_another_kind_and_goes_on_after_it(call: ForwardCall) -> None:
    with set_forward_context(call):
        with set_forward_context(ForwardContext(None)):
            assert current_call() is None
        assert current_call() is call
    assert current_call() is None
