"""Converts pickled weights (pytorch_model*.bin) to safetensors, which cannot run code when they are read.

    python -m scripts.convert MODEL FOLDER

MODEL is a folder, or a name on the Hub; FOLDER gets the new weights and all other files of the model. The
pickles are read with torch's weights_only: it builds tensors and runs no code. Each file is converted by
itself, so that a model in many files needs the memory of one.
"""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from hub.download import fetch
from hub.resolve import make_hub, resolve_model
from hub.small_files import CONFIG, INDEX
from hub.weight_files import PICKLE_PATTERN
from inference.finding import Refused
from inference.model.load.meta_model import try_build_on_meta
from settings.schema import BadSetting
from settings.sources import read_sources, resolve

HOME = Path(__file__).resolve().parents[1]
# Weights in other formats, which are not copied, and what training leaves.
OTHER_WEIGHTS = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".ot", ".onnx", ".tflite", ".gguf")


class CannotConvert(Exception):
    """The model cannot be converted; the message says why."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.convert", description="Convert pickled weights to safetensors."
    )
    parser.add_argument("model", help="the folder of a model, or its name on the Hub")
    parser.add_argument("folder", type=Path, help="a new folder for the converted model")
    options = parser.parse_args(arguments)
    try:
        convert(find_folder(options.model), options.folder)
    except (CannotConvert, BadSetting) as error:
        print(f"convert: {error}", file=sys.stderr)
        return 1
    except Refused as error:
        print(f"convert: {error.finding.have}: {error.finding.fix}", file=sys.stderr)
        return 1
    print(options.folder)
    return 0


def find_folder(model: str) -> Path:
    """The model's folder; a model on the Hub is fetched. Raises BadSetting or Refused."""
    if (folder := Path(model).expanduser()).is_dir():
        return folder
    settings = resolve(read_sources(HOME, os.environ))
    settings = replace(settings, model_name=model, allow_pickle=True, gguf_file="")
    return fetch(resolve_model(settings, HOME), make_hub(settings))


def convert(source: Path, target: Path) -> None:
    """Write the model in `source` to `target`, which must not exist or be empty. Raises CannotConvert."""
    pickles = sorted(path for path in source.iterdir() if is_pickle(path.name))
    if not pickles or any(source.glob("model*.safetensors")):
        have = "has safetensors already" if pickles else "has no pytorch_model*.bin"
        raise CannotConvert(f"{source} {have}")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CannotConvert(f"{target} exists and is not an empty folder: name a new one")
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(
        prefix=f"{target.name}.", dir=target.parent, ignore_cleanup_errors=True
    ) as partial:
        convert_files(source, pickles, Path(partial))
        Path(partial).chmod(0o755)
        os.replace(partial, target)


def convert_files(source: Path, pickles: Sequence[Path], target: Path) -> None:
    """Write the weights of `pickles`, their index if there are several, and all other files to `target`."""
    tied_weights = find_tied_weights(source)
    files: dict[str, str] = {}
    total_size = 0
    for pickle in pickles:
        tensors = without_shared(read_pickle(pickle), tied_weights)
        name = safetensors_name(pickle.name)
        save_file(tensors, target / name, metadata={"format": "pt"})
        files |= dict.fromkeys(tensors, name)
        total_size += sum(tensor.nbytes for tensor in tensors.values())
        print(f"{pickle.name} -> {name}: {len(tensors)} tensors", file=sys.stderr)
    if len(pickles) > 1:
        index = {"metadata": {"total_size": total_size}, "weight_map": dict(sorted(files.items()))}
        (target / INDEX).write_text(json.dumps(index, indent=2) + "\n")
    copy_other_files(source, target)


def is_pickle(name: str) -> bool:
    return bool(PICKLE_PATTERN.fullmatch(name)) and name.endswith(".bin")


def safetensors_name(pickle_name: str) -> str:
    """pytorch_model-00001-of-00002.bin -> model-00001-of-00002.safetensors"""
    return pickle_name.removeprefix("pytorch_").removesuffix(".bin") + ".safetensors"


def read_pickle(path: Path) -> dict[str, Tensor]:
    """The tensors of one file, by name. Raises CannotConvert."""
    try:
        state = load_tensors(path)
    except Exception as error:  # a damaged or hostile file
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CannotConvert(f"{path.name} cannot be read: {reason}") from error
    if not isinstance(state, Mapping) or not state:
        raise CannotConvert(f"{path.name} holds no table of tensors by name")
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise CannotConvert(f"{path.name}: {name} is a {type(value).__name__}, and not a tensor")
    return {name: value.detach() for name, value in state.items()}


def load_tensors(path: Path) -> Any:
    """The content of the file. Files written by torch before 1.6 cannot be mapped into memory."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError:
        return torch.load(path, map_location="cpu", weights_only=True)


def find_tied_weights(folder: Path) -> Mapping[str, str]:
    """Names of weights that transformers ties to another weight at load, and the other's name."""
    try:
        config = json.loads((folder / CONFIG).read_text())
    except (OSError, ValueError) as error:
        raise CannotConvert(f"{CONFIG} cannot be read: {error}") from error
    model = try_build_on_meta(config)
    return getattr(model, "all_tied_weights_keys", None) or {}


def without_shared(tensors: Mapping[str, Tensor], tied_weights: Mapping[str, str]) -> dict[str, Tensor]:
    """The tensors with memory of their own, as safetensors needs them.

    A tensor that equals the one it is tied to is left out, as transformers does; others are copied.
    """
    unique_tensors = {
        name: tensor
        for name, tensor in tensors.items()
        if not is_same_memory(tensor, tensors.get(tied_weights.get(name, "")))
    }
    storages = [tensor.untyped_storage().data_ptr() for tensor in unique_tensors.values()]
    return {
        name: tensor.clone(memory_format=torch.contiguous_format)
        if storages.count(tensor.untyped_storage().data_ptr()) > 1 or is_part(tensor)
        else tensor.contiguous()
        for name, tensor in unique_tensors.items()
    }


def is_part(tensor: Tensor) -> bool:
    """Whether the tensor is a part of a larger storage."""
    return tensor.untyped_storage().nbytes() != tensor.nbytes


def is_same_memory(tensor: Tensor, other: Tensor | None) -> bool:
    return other is not None and tensor.is_set_to(other)


def copy_other_files(source: Path, target: Path) -> None:
    """Copy all files but weights in other formats, their indexes and hidden folders."""
    for path in other_files(source):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def other_files(source: Path) -> Iterable[Path]:
    for path in sorted(source.rglob("*")):
        names = path.relative_to(source).parts
        is_hidden = any(name.startswith(".") for name in names)
        is_weights = path.name.endswith((*OTHER_WEIGHTS, ".safetensors", ".index.json"))
        if path.is_file() and not is_hidden and not is_weights:
            yield path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
