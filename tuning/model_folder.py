"""Writes a model as a folder that transformers, vLLM and this server load. Knows transformers' files."""

import json
import shutil
from pathlib import Path
from typing import Any

# Files beside the weights: of the tokenizer, of the chat template and of defaults.
COPIED_FILES = (
    *("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json"),
    *("added_tokens.json", "vocab.json", "merges.txt", "chat_template.jinja", "generation_config.json"),
)
MODEL_CARD = "README.md"
CHAT_TEMPLATE = "chat_template.jinja"  # transformers prefers it to the one in tokenizer_config.json


def write_model_folder(model: Any, tokenizer: Any, source: Path, folder: Path) -> None:
    """Write the weights in their dtype, and the tokenizer of `source` with the template of `tokenizer`."""
    model.save_pretrained(folder)
    copy_tokenizer(source, folder)
    if isinstance(tokenizer.chat_template, str):
        (folder / CHAT_TEMPLATE).write_text(tokenizer.chat_template, "utf-8")


def copy_tokenizer(source: Path, folder: Path) -> None:
    for name in COPIED_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)


def write_model_card(folder: Path, name: str, parent: str) -> None:
    """Say where the model comes from, as the Hub reads it. parent: the public name of the base model."""
    lines = ["---", f"base_model: {json.dumps(parent)}", "base_model_relation: finetune"]
    lines += ["library_name: transformers", "---", f"# {name}", "", f"Fine-tuned from {parent}, all weights."]
    (folder / MODEL_CARD).write_text("\n".join(lines) + "\n", "utf-8")
