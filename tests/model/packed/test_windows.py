"""Patterns of masks that are windows, and those that are none."""

from collections.abc import Callable

import pytest
import torch
from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM

from inference.model.fit import choose
from inference.model.packed.windows import Window, window_of
from inference.model.unfit import Unfit
from tests.families import LLAMA, VOCAB

Pattern = Callable[..., torch.Tensor]


def causal(row: torch.Tensor, head: torch.Tensor, query: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
    return column <= query


def within(width: int) -> Pattern:
    return lambda row, head, query, column: (column <= query) & (column > query - width)


@pytest.mark.parametrize(
    ("pattern", "width"), [(causal, None), (within(1), 1), (within(6), 6), (within(0), 0)]
)
def test_a_window_is_told_by_what_is_seen(pattern: Pattern, width: int | None) -> None:
    assert window_of(pattern) == Window(width)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (lambda row, head, query, column: column <= query + 1, "what is no window"),
        (lambda row, head, query, column: (column <= query) & (column % 2 == 0), "what is no window"),
        (lambda row, head, query, column: (column <= query) & (column >= query // 100 * 100), "more than"),
    ],
)
def test_what_is_none_is_refused(pattern: Pattern, reason: str) -> None:
    with pytest.raises(Unfit, match=reason):
        window_of(pattern)


def test_a_mask_that_no_layer_uses_refuses_nothing() -> None:
    """Qwen2-MoE makes that of its window also where it has none."""
    config = Qwen2MoeConfig(vocab_size=VOCAB, moe_intermediate_size=32, num_experts=4, **LLAMA)
    model = Qwen2MoeForCausalLM(config).eval()
    assert config.sliding_window == 0
    fitted = choose(model, max_rows=2, context=64, kv_bytes=1 << 24, timed=False, kinds=("packed", "solo"))
    assert fitted.seat == "packed"
