"""The file formats of weights and how each is loaded. To add a format, add a row to FORMATS.

Knows transformers' loader and file names. A model's path is a folder, or a GGUF file (of several shards, the
first) with the other files of its folder.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import safe_open
from torch import Tensor
from transformers import AutoConfig

from inference.model.load.gguf.config.config import read_gguf_config
from inference.model.load.gguf.config.tensor_config import required
from inference.model.load.gguf.file.shards import (
    GGUF,
    merged_header,
    open_as_one_file,
    read_files,
    shard_paths,
)
from inference.model.load.gguf.tensors.processors import processors
from inference.model.load.gguf.tensors.unused_tensors import check_all_used
from inference.model.load.gguf.tokenizer.tokenizer import read_gguf_tokenizer
from inference.model.load.tokenizer import open_tokenizer

TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json")
# (auto_class, source, **options) → the model, and the names of its missing weights
OpenWeights = Callable[..., tuple[Any, set[str]]]


@dataclass(frozen=True, slots=True)
class WeightsFormat:
    """A file format of weights.

    matches       whether a model's path has weights in this format
    files         the files that transformers reads weights from
    open          loads the model
    can_run_code  whether loading can run code stored in the files
    """

    matches: Callable[[Path], bool]
    files: Callable[[Path], Iterable[Path]]
    open: OpenWeights
    can_run_code: bool = False


def is_gguf(source: Path) -> bool:
    return source.suffix == GGUF


def model_folder(source: Path) -> Path:
    """The folder of a model's files."""
    return source.parent if is_gguf(source) else source


def gguf_kwargs(source: Path) -> Mapping[str, str]:
    """The from_pretrained argument for a GGUF file; none for a folder."""
    return {"gguf_file": source.name} if is_gguf(source) else {}


def read_config(source: Path, trust_remote_code: bool) -> Any:
    if is_gguf(source):
        return read_gguf_config(source)
    return AutoConfig.from_pretrained(source, trust_remote_code=trust_remote_code)


def read_tokenizer(source: Path, trust_remote_code: bool) -> Any:
    """Open the tokenizer. Beside a GGUF file, tokenizer files come first: they say more and load faster."""
    if not is_gguf(source) or any((source.parent / name).is_file() for name in TOKENIZERS):
        return open_tokenizer(model_folder(source), trust_remote_code)
    return read_gguf_tokenizer(source)


def has_safetensors(source: Path) -> bool:
    return any(source.glob("*.safetensors"))


def safetensors_files(source: Path) -> Iterable[Path]:
    return source.glob("model*.safetensors")


def read_safetensors(source: Path) -> dict[str, Tensor]:
    """The tensors of the files, mapped into memory."""
    tensors: dict[str, Tensor] = {}
    for path in safetensors_files(source):
        with safe_open(path, "pt") as file:
            tensors |= {name: file.get_tensor(name) for name in file.offset_keys()}
    return tensors


def pickled_files(source: Path) -> Iterable[Path]:
    return source.glob("pytorch_model*.bin")


def has_pickles(source: Path) -> bool:
    return any(pickled_files(source))


def open_safetensors(auto_class: Any, source: Path, **options: Any) -> tuple[Any, set[str]]:
    return load_model_and_missing(auto_class, source, use_safetensors=True, **options)


def open_pickles(auto_class: Any, source: Path, **options: Any) -> tuple[Any, set[str]]:
    """Load pickled weights; only the pickle operations that build tensors are allowed."""
    return load_model_and_missing(auto_class, source, use_safetensors=False, weights_only=True, **options)


def open_gguf(auto_class: Any, source: Path, **options: Any) -> tuple[Any, set[str]]:
    """Load GGUF weights dequantized to the requested dtype: the runners have no kernels for GGUF's types.

    Raises NotGguf for a tensor that no parameter takes.
    """
    processors()
    with torch.device("meta"):
        check_all_used(merged_header(source, read_files(source)), auto_class.from_config(options["config"]))
    gguf_config = getattr(transformers, "GgufConfig", None)  # not in every release
    plain = {"quantization_config": gguf_config(dequantize=True)} if gguf_config else {}
    with open_as_one_file(source):
        model, missing = load_model_and_missing(
            auto_class, model_folder(source), **gguf_kwargs(source), **plain, **options
        )
    return model, required(missing)


def load_model_and_missing(auto_class: Any, source: Path, **options: Any) -> tuple[Any, set[str]]:
    model, report = auto_class.from_pretrained(source, output_loading_info=True, **options)
    return model, set(report["missing_keys"])


# The first format that matches is used.
FORMATS = (
    WeightsFormat(is_gguf, shard_paths, open_gguf),
    WeightsFormat(has_safetensors, safetensors_files, open_safetensors),
    WeightsFormat(has_pickles, pickled_files, open_pickles, can_run_code=True),
)
