"""Tiny models on disk with adapters that peft made."""

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from tests.tiny_models import tiny

IDS = torch.tensor([[5, 9, 200, 31, 7, 64, 128, 2]])


def save_adapter(base: Path, folder: Path, **config: Any) -> Path:
    """An adapter with large random weights."""
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    settings = {"r": 4, "lora_alpha": 8, "target_modules": "all-linear", "task_type": "CAUSAL_LM"} | config
    adapted = get_peft_model(model, LoraConfig(**settings))
    for parameter in adapted.parameters():
        if parameter.requires_grad:
            parameter.data.add_(torch.randn_like(parameter), alpha=0.2)
    adapted.save_pretrained(folder)
    return folder


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tiny.llama(tmp_path / "base")


@pytest.fixture
def adapter(base: Path, tmp_path: Path) -> Path:
    return save_adapter(base, tmp_path / "adapter")
