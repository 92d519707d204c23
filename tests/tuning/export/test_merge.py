"""The merged weights, and the files with them, compute the logits of the base with its adapter."""

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from inference.errors import BadRequest
from tests.tiny_models import tiny
from tests.tuning.export.conftest import IDS, save_adapter
from tuning.export.formats import safetensors
from tuning.export.merge import merge_adapter


@torch.no_grad()
def peft_logits(base: Path, adapter: Path) -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    return PeftModel.from_pretrained(model, str(adapter))(IDS).logits


@torch.no_grad()
def logits(folder: Path) -> torch.Tensor:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)(IDS).logits


@pytest.mark.parametrize(
    ("model", "config"),
    [
        ({}, {}),
        ({}, {"use_rslora": True}),
        ({}, {"rank_pattern": {"q_proj": 2}, "alpha_pattern": {"v_proj": 32}}),
        ({"tie_word_embeddings": True}, {"target_modules": ["q_proj", "lm_head"]}),
    ],
)
def test_the_saved_model_has_the_logits_of_the_adapter(
    tmp_path: Path, model: dict[str, Any], config: dict[str, Any]
) -> None:
    base = tiny.llama(tmp_path / "base", **model)
    adapter = save_adapter(base, tmp_path / "adapter", **config)
    safetensors(merge_adapter(base, adapter), tmp_path / "merged", "float32")
    expected = peft_logits(base, adapter)
    torch.testing.assert_close(logits(tmp_path / "merged"), expected, atol=1e-4, rtol=1e-4)
    assert (expected - logits(base)).abs().max() > 0.1


def test_the_weights_have_the_dtype_of_the_base(base: Path, adapter: Path, tmp_path: Path) -> None:
    safetensors(merge_adapter(base, adapter), tmp_path / "merged", None)
    weights = load_file(tmp_path / "merged" / "model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {torch.bfloat16}


def test_the_tokenizer_and_the_chat_template_come_along(base: Path, adapter: Path, tmp_path: Path) -> None:
    safetensors(merge_adapter(base, adapter), tmp_path / "merged", None)
    tokenizer, expected = map(AutoTokenizer.from_pretrained, (tmp_path / "merged", base))
    assert tokenizer.chat_template == expected.chat_template
    assert tokenizer("Hi there")["input_ids"] == expected("Hi there")["input_ids"]


def test_an_adapter_of_another_model_is_refused(adapter: Path, tmp_path: Path) -> None:
    other = tiny.llama(tmp_path / "other", hidden_size=64)
    with pytest.raises(BadRequest, match="shape"):
        merge_adapter(other, adapter)


def test_an_adapter_that_is_not_finite_is_refused(base: Path, adapter: Path) -> None:
    path = adapter / "adapter_model.safetensors"
    weights = load_file(path)
    weights[next(key for key in weights if "lora_B" in key)].fill_(float("nan"))
    save_file(weights, path)
    with pytest.raises(BadRequest, match="not finite"):
        merge_adapter(base, adapter)
