"""The formats of an export. To add one, add a row to FORMATS."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from inference.errors import BadRequest
from inference.lora.file_names import ADAPTER_CONFIG, ADAPTER_FILES
from tuning.export.gguf_file.write import F16, Q8_0, write_gguf
from tuning.export.merge import MergedModel
from tuning.export.ollama import write_modelfile
from tuning.model_folder import copy_tokenizer, write_model_folder

GGUF_NAMES = {F16: "model-f16.gguf", Q8_0: "model-q8_0.gguf"}

Write = Callable[[MergedModel, Path, str | None], list[str]]  # returns what the user must know


def safetensors(merged: MergedModel, folder: Path, dtype: str | None) -> list[str]:
    model = merged.model.to(getattr(torch, dtype) if dtype else merged.dtype)
    write_model_folder(model, merged.tokenizer, merged.base_folder, folder)
    return []


def gguf_f16(merged: MergedModel, folder: Path, dtype: str | None) -> list[str]:
    copy_tokenizer(merged.base_folder, folder)
    return write_gguf(merged, folder / GGUF_NAMES[F16], F16)


def gguf_q8_0(merged: MergedModel, folder: Path, dtype: str | None) -> list[str]:
    copy_tokenizer(merged.base_folder, folder)
    return write_gguf(merged, folder / GGUF_NAMES[Q8_0], Q8_0)


def ollama(merged: MergedModel, folder: Path, dtype: str | None) -> list[str]:
    messages = write_gguf(merged, folder / GGUF_NAMES[Q8_0], Q8_0)
    return messages + write_modelfile(merged, folder, GGUF_NAMES[Q8_0])


FORMATS: Mapping[str, Write] = {
    "safetensors": safetensors,
    "gguf-f16": gguf_f16,
    "gguf-q8_0": gguf_q8_0,
    "ollama": ollama,
}


def write_adapter(adapter: Path, folder: Path) -> list[str]:
    """The adapter as it is, for peft and vLLM. Raises BadRequest for a whole model."""
    if not (adapter / ADAPTER_CONFIG).is_file():
        raise BadRequest("--format", "must be another one: this is a whole model", "adapter")
    for name in ADAPTER_FILES:
        shutil.copyfile(adapter / name, folder / name)
    return []
