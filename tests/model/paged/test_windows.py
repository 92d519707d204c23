"""Attention mask patterns that are sliding windows, and patterns that are not."""

from collections.abc import Callable

import pytest
import torch
from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM

from inference.model.batch import UnsupportedModel
from inference.model.paged.attention import SlidingWindow, window_of
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules
from inference.model.runner_selection.select_runner import select_runner
from tests.tiny_models.families import LLAMA, VOCAB

Pattern = Callable[..., torch.Tensor]


def causal(row: torch.Tensor, head: torch.Tensor, query: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
    return column <= query


def sliding_window(width: int) -> Pattern:
    return lambda row, head, query, column: (column <= query) & (column > query - width)


@pytest.mark.parametrize(
    ("pattern", "width"),
    [(causal, None), (sliding_window(1), 1), (sliding_window(6), 6), (sliding_window(0), 0)],
)
def test_a_window_is_recognized_by_the_visible_columns(pattern: Pattern, width: int | None) -> None:
    assert window_of(pattern) == SlidingWindow(width)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (lambda row, head, query, column: column <= query + 1, "the attention mask is no sliding window"),
        (
            lambda row, head, query, column: (column <= query) & (column % 2 == 0),
            "the attention mask is no sliding window",
        ),
        (lambda row, head, query, column: (column <= query) & (column >= query // 100 * 100), "more than"),
        (lambda row, head, query, column: torch.ones(4, dtype=torch.bool)[query], "more than"),
    ],
)
def test_a_mask_that_is_no_window_is_refused(pattern: Pattern, reason: str) -> None:
    with pytest.raises(UnsupportedModel, match=reason):
        window_of(pattern)


def test_a_mask_that_no_layer_uses_refuses_nothing() -> None:
    """Qwen2-MoE builds a sliding-window mask of width 0 even if no layer has a window."""
    config = Qwen2MoeConfig(vocab_size=VOCAB, moe_intermediate_size=32, num_experts=4, **LLAMA)
    model = Qwen2MoeForCausalLM(config).eval()
    assert config.sliding_window == 0
    selected = select_runner(
        model,
        RunnerLimits(max_sequences=2, context=64, kv_memory_bytes=1 << 24),
        RunnerRules(timed=False, kinds=("paged", "uncached")),
    )
    assert selected.runner_kind == "paged"


def test_a_model_that_uses_its_attention_mask_itself_is_refused_in_words() -> None:
    with pytest.raises(UnsupportedModel, match="adds the attention mask to its scores itself"):
        torch.zeros(2) + SlidingWindow(4)
    with pytest.raises(UnsupportedModel, match="reads the dtype of the attention mask itself"):
        SlidingWindow(4).dtype
