"""Opens the model to export: a base with an adapter merged into it, or a whole model. Writes no file."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from torch import nn

from inference.errors import BadRequest
from inference.lora.check import check_adapter
from inference.model.load import loader
from settings.groups import ModelSettings

ANY_RANK = 1 << 20  # exporting serves nothing, so MAX_LORA_RANK does not apply
EMBEDDINGS = ("embed_tokens", "wte", "word_embeddings", "lm_head", "output")


@dataclass(frozen=True, slots=True)
class MergedModel:
    """A model to export, with its tokenizer.

    model: in float32; base_folder: of its tokenizer; dtype: of the base's files.
    """

    model: Any
    tokenizer: Any
    base_folder: Path
    dtype: torch.dtype


def merge_adapter(base_folder: Path, adapter_folder: Path, *, trust_remote_code: bool = False) -> MergedModel:
    """The base with the adapter's changes in its weights, computed in float32.

    Raises BadRequest for an adapter that does not fit, or has what would not be merged.
    """
    stored = loader.config_of(base_folder, trust_remote_code).dtype or torch.float32
    loaded = loader.load(base_folder, exact_settings(trust_remote_code))
    model = loaded.model
    checked = check_adapter(model, adapter_folder, ANY_RANK)
    if any(name.rpartition(".")[2] in EMBEDDINGS for name in checked.modules):
        untie_embeddings(model)
    with warnings.catch_warnings(action="ignore"):  # peft's remarks on Conv1D and tied weights
        merged = PeftModel.from_pretrained(model, str(adapter_folder)).merge_and_unload()
    check_finite(merged)
    return MergedModel(merged, loaded.tokenizer, base_folder, stored)


def open_full_model(folder: Path, *, trust_remote_code: bool = False) -> MergedModel:
    """A model whose weights were all trained. Raises BadRequest for a folder that cannot be loaded."""
    stored = loader.config_of(folder, trust_remote_code).dtype or torch.float32
    loaded = loader.load(folder, exact_settings(trust_remote_code))
    check_finite(loaded.model)
    return MergedModel(loaded.model, loaded.tokenizer, folder, stored)


def exact_settings(trust_remote_code: bool) -> ModelSettings:
    """How a model is loaded to be written again: float32 holds every weight as it is stored."""
    return ModelSettings(dtype="float32", device="cpu", trust_remote_code=trust_remote_code)


def untie_embeddings(model: Any) -> None:
    """Give the output layer weights of its own: the adapter changes one of both."""
    head = model.get_output_embeddings()
    if head is None or head.weight is not model.get_input_embeddings().weight:
        return
    head.weight = nn.Parameter(head.weight.detach().clone(), requires_grad=False)
    model.config.tie_word_embeddings = False


def check_finite(model: Any) -> None:
    for name, weight in model.named_parameters():
        if not torch.isfinite(weight).all():
            raise BadRequest("NAME", f"gives {name} values that are not finite")
