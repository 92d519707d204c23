"""Adapters that peft itself makes for the tiny models, with large random weights, and peft's own answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import PreTrainedModel

from tests.tiny_models.families import tiny

NEW = 8  # tokens of an answer


def save_adapter(
    folder: Path, family: str, seed: int, model_settings: dict[str, Any] | None = None, **config: Any
) -> Path:
    """An adapter as peft writes it. config: fields of LoraConfig; by default a pair on each linear layer."""
    model = tiny(family, **(model_settings or {}))
    torch.manual_seed(seed)
    settings = {"r": 4, "lora_alpha": 8, "target_modules": "all-linear", "task_type": task_of(model)} | config
    adapted = get_peft_model(model, LoraConfig(**settings))
    for parameter in adapted.parameters():
        if parameter.requires_grad:
            parameter.data.add_(torch.randn_like(parameter), alpha=0.2)
    adapted.save_pretrained(folder)
    return folder


def task_of(model: PreTrainedModel) -> str:
    return "SEQ_2_SEQ_LM" if model.config.is_encoder_decoder else "CAUSAL_LM"


def peft_answers(
    folder: Path, family: str, prompts: Sequence[Sequence[int]], model_settings: dict[str, Any] | None = None
) -> list[list[int]]:
    """The greedy answers of transformers with the adapter."""
    adapted = PeftModel.from_pretrained(tiny(family, **(model_settings or {})), folder)
    return [generate_greedily(adapted, prompt) for prompt in prompts]


def peft_choices(
    folder: Path,
    family: str,
    prompts: Sequence[Sequence[int]],
    outputs: Sequence[Sequence[int]],
    model_settings: dict[str, Any] | None = None,
) -> list[list[int]]:
    """The greedy choices of transformers with the adapter, along each output."""
    adapted = PeftModel.from_pretrained(tiny(family, **(model_settings or {})), folder)
    return greedy_choices(adapted, prompts, outputs)


def greedy_choices(
    model: Any, prompts: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]]
) -> list[list[int]]:
    """The most probable token after each beginning of an output, by one forward of prompt and output.

    They equal the output exactly if `generate` gives that output, in fewer forwards.
    """
    choices = []
    for prompt, output in zip(prompts, outputs, strict=True):
        prompt_ids, output_ids = list(prompt), list(output[:-1])
        with torch.inference_mode():
            if model.config.is_encoder_decoder:
                decoder_ids = torch.tensor([[model.config.decoder_start_token_id, *output_ids]])
                logits = model(input_ids=torch.tensor([prompt_ids]), decoder_input_ids=decoder_ids).logits
            else:
                logits = model(input_ids=torch.tensor([prompt_ids + output_ids]), use_cache=False).logits
        choices.append(logits[0, -len(output) :].argmax(-1).tolist())
    return choices


def generate_greedily(model: Any, prompt: Sequence[int]) -> list[int]:
    ids = torch.tensor([list(prompt)], device=model.device)
    limits = {"max_new_tokens": NEW, "min_new_tokens": NEW}
    with torch.inference_mode():
        return model.generate(input_ids=ids, do_sample=False, eos_token_id=None, **limits)[0, -NEW:].tolist()
