"""Remembers measured sizes of models on disk: a later start builds no model on the meta device to measure it.

The measurement takes a second, most of it imports. It follows from what is measured, from the libraries, and
from the code that measures: a hash of all of them names the file.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import torch
import transformers
from torch import Tensor

from checks.memory.model_size import ModelSize
from inference.native.cpu_levels import processor_features
from inference.process.cache_folder import cache_folder, keep_newest, read_with_digest, write_with_digest

FOLDER = "model_sizes"
MAX_FILES = 256  # models and settings that are remembered, of some 1 KB each
ROOT = Path(__file__).parent.parent.parent
MEASURING_CODE = ("checks/memory", "inference/model", "inference/native")


def remembered_size(inputs: Iterable[Any], measure: Callable[[], ModelSize]) -> ModelSize:
    """measure(), or what it returned at an earlier start for the same inputs.

    inputs: all that the result depends on except code and libraries: values of JSON, and tensors by name,
    of which names, shapes and dtypes count. A size with an error is measured each time.
    """
    with contextlib.suppress(OSError, RuntimeError):
        path = cache_folder() / FOLDER / f"{fingerprint(inputs)}"
        model_size = read_size(path)
        if model_size is None:
            model_size = measure()
            write_size(path, model_size)
        return model_size
    return measure()


def read_size(path: Path) -> ModelSize | None:
    """The size in the file; None if there is none that can be read."""
    try:
        model_size = msgspec.json.decode(read_with_digest(path), type=ModelSize)
        path.touch()  # it is used: keep_newest deletes others first
    except (OSError, msgspec.DecodeError):
        return None
    return model_size


def write_size(path: Path, model_size: ModelSize) -> None:
    if model_size.construct_error or model_size.runner_error:
        return
    with contextlib.suppress(OSError):
        write_with_digest(path, msgspec.json.encode(model_size))
        keep_newest(path.parent, MAX_FILES)


def fingerprint(inputs: Iterable[Any]) -> str:
    """A hash of the inputs, the libraries, the processor and the measuring code. Raises OSError."""
    machine = (torch.__version__, transformers.__version__, *sorted(processor_features()))
    digest = hashlib.sha256(" ".join(machine).encode())
    for folder in MEASURING_CODE:
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    for value in inputs:
        described = describe_tensors(value) if isinstance(value, Mapping) else value
        digest.update(json.dumps(described, sort_keys=True, default=str).encode() + b"\0")
    return digest.hexdigest()[:32]


def describe_tensors(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, with shape and dtype instead of a tensor."""
    return {
        name: (list(value.shape), str(value.dtype)) if isinstance(value, Tensor) else value
        for name, value in values.items()
    }
