"""Adapters of models/demo that peft makes, and the answers of transformers with them."""

from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

MODEL = Path(__file__).parents[2] / "models/demo"


def save_adapter(folder: Path, seed: int, **config: Any) -> Path:
    """An adapter as peft writes it, with random weights that change every answer."""
    settings = {"r": 8, "lora_alpha": 16, "target_modules": ["q_proj", "v_proj", "down_proj"]} | config
    torch.manual_seed(seed)
    adapted = get_peft_model(load_model(), LoraConfig(task_type="CAUSAL_LM", **settings))
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_(std=0.6)
    adapted.save_pretrained(folder)
    return folder


def peft_answer(folder: Path, prompt: str, max_tokens: int) -> str:
    """The greedy continuation of transformers with the adapter, in float32."""
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    inputs = tokenizer(prompt, return_tensors="pt")
    with torch.inference_mode():
        output = PeftModel.from_pretrained(load_model(), folder).generate(
            **inputs, do_sample=False, max_new_tokens=max_tokens
        )
    text: str = tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    return text


def load_model() -> Any:
    return AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
