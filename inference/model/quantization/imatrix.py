"""Reads a file of llama-imatrix: the importance of each input of a weight, its mean squared activation.

Both forms: a GGUF file, and the older .dat (llama.cpp, common/imatrix-loader.cpp). Knows the names of tensors
in GGUF files and of parameters in transformers' models; not how a weight is quantized.
"""

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import torch
from torch import Tensor

from inference.model.load.gguf.file.cursor import NotGguf
from inference.model.load.gguf.file.header import MAGIC, GgufHeader, GgufTensor, read_header
from inference.model.quantization.find_weights import FoundWeight, find_weights

SUMS, COUNTS = ".in_sum2", ".counts"  # ends of the names of an entry's tensors
F32 = 0  # a ggml type
MAX_ENTRIES, MAX_NAME = 1 << 16, 1 << 10
# transformers' model type → llama.cpp's architecture, where they differ by more than dashes.
ARCHITECTURES: Mapping[str, str] = {
    "cohere": "command-r",
    "gemma3_text": "gemma3",
    "gpt_neox": "gptneox",
    "mistral": "llama",
    "mixtral": "llama",
    "phi": "phi2",
    "qwen2_moe": "qwen2moe",
    "qwen3_moe": "qwen3moe",
    "umt5": "t5",
}
# The stack of gate and up is one parameter; both have the same inputs.
STACKED, GATE = "gate_up_proj", "gate_proj"


class BadImatrix(ValueError):
    """The file cannot be used; the message says why."""


def read_imatrix(path: Path) -> dict[str, Tensor]:
    """The importance of inputs (experts * inputs,) by the names of GGUF tensors. Raises BadImatrix."""
    try:
        data = path.expanduser().read_bytes()
        entries = read_gguf_entries(data) if data.startswith(MAGIC) else read_legacy_entries(data)
    except (OSError, NotGguf, struct.error, UnicodeDecodeError) as error:
        raise BadImatrix(f"{path} cannot be read: {error}") from None
    if not entries:
        raise BadImatrix(f"{path} has no entries")
    for name, values in entries.items():
        if not bool(((values >= 0) & values.isfinite()).all()):
            raise BadImatrix(f"{path} has a value of {name} that is negative or not finite")
    return entries


def read_gguf_entries(data: bytes) -> dict[str, Tensor]:
    header = read_header(lambda start, stop: data[start:stop], len(data), len(data))
    tensors = {
        tensor.name: read_floats(data, header, tensor)
        for tensor in header.tensors or ()
        if tensor.name.endswith((SUMS, COUNTS))
    }
    names = [name.removesuffix(SUMS) for name in tensors if name.endswith(SUMS)]
    return {name: mean_squares(tensors[name + SUMS], tensors.get(name + COUNTS)) for name in names}


def read_floats(data: bytes, header: GgufHeader, tensor: GgufTensor) -> Tensor:
    start, stop = header.data_offset + tensor.offset, header.data_offset + tensor.end
    if tensor.ggml_type != F32 or not start < stop <= len(data):
        raise NotGguf(f"a file whose tensor {tensor.name!r} is cut off, or no float32")
    return torch.frombuffer(bytearray(data[start:stop]), dtype=torch.float32)


def mean_squares(sums: Tensor, counts: Tensor | None) -> Tensor:
    """Sums of squares by their counts, one for each expert; an expert without any has no preference."""
    if counts is None or len(sums) % len(counts):
        raise NotGguf("a file with sums and counts that do not match")
    counts = counts.round()
    by_expert = sums.view(len(counts), -1)
    return torch.where(counts[:, None] > 0, by_expert / counts[:, None], 1).flatten()


def read_legacy_entries(data: bytes) -> dict[str, Tensor]:
    """An entry: length and name, the number of calls, the number of values, and their sums over the calls."""
    (num_entries,), place = struct.unpack_from("<i", data), 4
    if not 0 < num_entries <= MAX_ENTRIES:
        raise NotGguf("it is no file of llama-imatrix")
    entries: dict[str, Tensor] = {}
    for _ in range(num_entries):
        (length,), place = struct.unpack_from("<i", data, place), place + 4
        if not 0 <= length <= MAX_NAME:
            raise NotGguf(f"a name of {length} bytes")
        name, place = data[place : place + length].decode(), place + length
        (num_calls, num_values), place = struct.unpack_from("<ii", data, place), place + 8
        if num_values < 1 or place + 4 * num_values > len(data):
            raise NotGguf(f"{name} is cut off")
        sums = torch.frombuffer(bytearray(data[place : place + 4 * num_values]), dtype=torch.float32)
        entries[name], place = sums / num_calls if num_calls > 0 else sums, place + 4 * num_values
    return entries


def importance_of(model: Any, path: Path) -> dict[str, Tensor]:
    """The importance of the inputs of a model's weights, by the names of parameters.

    (inputs,), or (experts, inputs) of a stack. Raises BadImatrix if the file is of another model.
    """
    entries, weights = read_imatrix(path), list(find_weights(model))
    names = tensor_names(model, weights)
    importance = {
        weight.name: shaped(entries[name], weight, path)
        for weight in weights
        if (name := names.get(weight.name)) in entries
    }
    if not importance:
        raise BadImatrix(f"{path} has no entry for a weight of this model")
    return importance


def shaped(values: Tensor, weight: FoundWeight, path: Path) -> Tensor:
    shape = (*weight.weight.shape[:-2], weight.inputs)
    if values.numel() != math.prod(shape):
        expected = f"instead of {math.prod(shape)}"
        raise BadImatrix(f"{path} has {values.numel()} values {expected} for {weight.name}")
    return values.view(shape)


def tensor_names(model: Any, weights: list[FoundWeight]) -> dict[str, str]:
    """The names in GGUF files of a model's weights, by those of their parameters. Raises BadImatrix."""
    model_type = model.config.model_type
    architecture = ARCHITECTURES.get(model_type, model_type.replace("_", "-"))
    kinds = {name: kind for kind, name in gguf.MODEL_ARCH_NAMES.items()}
    if architecture not in kinds:
        raise BadImatrix(f"llama.cpp's names for the weights of {model_type} are not known")
    names = gguf.get_tensor_name_map(kinds[architecture], model.config.num_hidden_layers)
    parameters = {
        weight.name: weight.name.removesuffix(".weight").replace(STACKED, GATE) for weight in weights
    }
    return {
        name: f"{tensor}.weight"
        for name, parameter in parameters.items()
        if (tensor := names.get_name(parameter))
    }
