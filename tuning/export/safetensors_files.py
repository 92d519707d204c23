"""Writes a merged model as a folder that transformers, vLLM and this server load."""

import shutil
from pathlib import Path

import torch

from tuning.export.merge import MergedModel

# Files beside the weights: of the tokenizer, of the chat template and of defaults.
COPIED_FILES = (
    *("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json"),
    *("added_tokens.json", "vocab.json", "merges.txt", "chat_template.jinja", "generation_config.json"),
)


def write_safetensors(merged: MergedModel, folder: Path, dtype: torch.dtype | None = None) -> None:
    """dtype: of the weights; None: as the base's files have them."""
    merged.model.to(dtype or merged.dtype).save_pretrained(folder)
    copy_tokenizer(merged.base_folder, folder)


def copy_tokenizer(source: Path, folder: Path) -> None:
    for name in COPIED_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
