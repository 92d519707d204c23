"""The part of a model's Hub repository that a check reads: small files, and headers of weight files.

Knows how weights are split into shards, and the layout of a shard's header. A weight file has a size, but no
weights.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.core_model_loading import revert_weight_conversion

from checks.memory import try_build_on_meta
from checks.memory.model_size import QUANTIZATION_CONFIG
from hub.small_files import CONFIG, INDEX, TOKENIZER
from hub.tensors import DTYPES
from scripts.preflight.sizes.file_formats import quantize_to_fp8
from scripts.preflight.sizes.shapes import Shape

MAX_SHARD_BYTES = 5 * 10**9  # as transformers splits weights
NAMES = {dtype: name for name, dtype in DTYPES.items()}
TOKENIZER_BYTES = 9_000_000  # bytes of a tokenizer.json
TEMPLATE = "{% for message in messages %}<{{ message.role }}>{{ message.content }}</s>{% endfor %}"


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of the local Hub.

    start  its first bytes, which are all that can be requested
    size   bytes of the full file
    """

    start: bytes
    size: int

    def entry(self) -> dict[str, Any]:
        """The file's metadata, as in the Hub's API."""
        git = hashlib.sha1(b"blob %d\0" % len(self.start) + self.start).hexdigest()
        metadata = {"size": self.size, "blobId": git}
        if not self.is_small:
            sha = hashlib.sha256(self.start).hexdigest()
            metadata["lfs"] = {"sha256": sha, "size": self.size, "pointerSize": 134}
        return metadata

    @property
    def is_small(self) -> bool:
        return self.size == len(self.start)


def make_repository(shape: Shape) -> dict[str, HubFile]:
    """The files of the shape's repository, by name."""
    shards = list(split_shards(file_tensors(shape)))
    names = [f"model-{number:05}-of-{len(shards):05}.safetensors" for number in range(1, len(shards) + 1)]
    index = {name: file for file, shard in zip(names, shards, strict=True) for name in shard}
    small_files = {
        CONFIG: shape.config,
        INDEX: {"metadata": {}, "weight_map": index},
        TOKENIZER: {"chat_template": TEMPLATE, "eos_token": "</s>"},
        "generation_config.json": {},
    }
    contents = {name: json.dumps(value).encode() for name, value in small_files.items()}
    files = {name: HubFile(content, len(content)) for name, content in contents.items()}
    files["tokenizer.json"] = HubFile(b"{", TOKENIZER_BYTES)
    return files | dict(zip(names, map(make_weight_file, shards), strict=True))


def file_tensors(shape: Shape) -> dict[str, Tensor]:
    """The tensors of the shape's weight files, on torch's meta device."""
    model = try_build_on_meta(
        {name: value for name, value in shape.config.items() if name != QUANTIZATION_CONFIG}
    )
    model = model.to(torch.bfloat16)
    tensors = model.state_dict()
    for tied in model.all_tied_weights_keys:
        tensors.pop(tied, None)
    tensors = revert_weight_conversion(model, tensors)
    return quantize_to_fp8(tensors, shape.config) if shape.file_format == "fp8" else tensors


def split_shards(tensors: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """Shards of at most MAX_SHARD_BYTES."""
    shard: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if shard and nbytes(shard.values()) + tensor.nbytes > MAX_SHARD_BYTES:
            yield shard
            shard = {}
        shard[name] = tensor
    yield shard


def make_weight_file(shard: Mapping[str, Tensor]) -> HubFile:
    """A safetensors file (https://huggingface.co/docs/safetensors), up to the end of its header."""
    entries, end = {}, 0
    for name, tensor in shard.items():
        begin, end = end, end + tensor.nbytes
        entries[name] = {"dtype": NAMES[tensor.dtype], "shape": [*tensor.shape], "data_offsets": [begin, end]}
    header = json.dumps(entries, separators=(",", ":")).encode()
    start = len(header).to_bytes(8, "little") + header
    return HubFile(start, len(start) + end)


def nbytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)
