"""The model's own attention over keys and values in 8 bits, and the runners that are compared with it."""

import logging

import pytest
import torch

from inference.model.paged.kv_pool import INT8
from inference.model.paged.rounded_attention import rounded_reference
from inference.model.reference import Reference
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules
from inference.model.runner_selection.select_runner import select_runner
from tests.tiny_models.families import CONTEXT, tiny

LIMITS = RunnerLimits(max_sequences=2, context=CONTEXT, kv_memory_bytes=1 << 24)
RULES = RunnerRules(kinds=("paged",), kv_dtype=INT8, timed=False)


@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt_oss", "mixtral", "deepseek_v3"])
def test_pages_of_blocks_give_the_logits_of_rounded_keys_and_values(name: str) -> None:
    """Among them attention in torch and in the model's own file, sinks, and experts that a router chooses."""
    model = tiny(name)
    rounding = Reference(model).difference(
        torch.cat(rounded_reference(model).logits), torch.cat(Reference(model).logits)
    )
    assert select_runner(model, LIMITS, RULES).error < rounding / 20


def test_the_loss_is_logged_and_the_model_keeps_its_attention(caplog: pytest.LogCaptureFixture) -> None:
    model = tiny("llama")
    before = torch.cat(Reference(model).logits)
    with caplog.at_level(logging.INFO, logger="inference.model"):
        select_runner(model, LIMITS, RULES)
    assert "llama: keys and values in 8 bits: rms error 0.0" in caplog.text
    assert torch.equal(torch.cat(Reference(model).logits), before)
