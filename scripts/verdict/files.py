"""The files of a model on the Hub, of which only what a verdict may read is there: small files, and headers.

Knows how shards are cut and what stands before their weights. A file of weights has its length, no bytes.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.core_model_loading import revert_weight_conversion

from checks.measure import skeleton
from checks.measure.measure import QUANTISED
from checks.source.glance import CONFIG, INDEX, TOKENIZER
from checks.source.tensors import DTYPES
from scripts.weigh.forms import in_blocks
from scripts.weigh.shapes import Shape

SHARD = 5 * 10**9  # bytes, as transformers cuts them
NAMES = {dtype: name for name, dtype in DTYPES.items()}
VOCABULARY = 9_000_000  # bytes of a tokenizer.json
TEMPLATE = "{% for message in messages %}<{{ message.role }}>{{ message.content }}</s>{% endfor %}"


@dataclass(frozen=True, slots=True)
class Stored:
    """`start` is what of it may be asked for, `size` how long all of it is."""

    start: bytes
    size: int

    def entry(self) -> dict[str, Any]:
        """What the Hub tells of it: its hash, and where it is large, that of what it has too."""
        git = hashlib.sha1(b"blob %d\0" % len(self.start) + self.start).hexdigest()
        known = {"size": self.size, "blobId": git}
        if not self.small:
            sha = hashlib.sha256(self.start).hexdigest()
            known["lfs"] = {"sha256": sha, "size": self.size, "pointerSize": 134}
        return known

    @property
    def small(self) -> bool:
        return self.size == len(self.start)


def repository(shape: Shape) -> dict[str, Stored]:
    """The files of a shape's model, by name."""
    shards = list(cut(tensors(shape)))
    names = [f"model-{place:05}-of-{len(shards):05}.safetensors" for place in range(1, len(shards) + 1)]
    index = {name: file for file, shard in zip(names, shards, strict=True) for name in shard}
    small = {
        CONFIG: shape.raw,
        INDEX: {"metadata": {}, "weight_map": index},
        TOKENIZER: {"chat_template": TEMPLATE, "eos_token": "</s>"},
        "generation_config.json": {},
    }
    files = {name: whole(json.dumps(value).encode()) for name, value in small.items()}
    files["tokenizer.json"] = Stored(b"{", VOCABULARY)
    return files | dict(zip(names, map(headed, shards), strict=True))


def tensors(shape: Shape) -> dict[str, Tensor]:
    """What its files hold, on torch's meta device."""
    model = skeleton({name: value for name, value in shape.raw.items() if name != QUANTISED})
    model = model.to(torch.bfloat16)
    held = model.state_dict()
    for tied in model.all_tied_weights_keys:
        held.pop(tied, None)
    held = revert_weight_conversion(model, held)
    return in_blocks(held, shape.raw) if shape.form == "fp8" else held


def cut(held: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """In files of at most SHARD bytes."""
    shard: dict[str, Tensor] = {}
    for name, tensor in held.items():
        if shard and nbytes(shard.values()) + tensor.nbytes > SHARD:
            yield shard
            shard = {}
        shard[name] = tensor
    yield shard


def headed(shard: Mapping[str, Tensor]) -> Stored:
    """A safetensors file (https://huggingface.co/docs/safetensors), as far as its header."""
    told, end = {}, 0
    for name, tensor in shard.items():
        begin, end = end, end + tensor.nbytes
        told[name] = {"dtype": NAMES[tensor.dtype], "shape": [*tensor.shape], "data_offsets": [begin, end]}
    header = json.dumps(told, separators=(",", ":")).encode()
    start = len(header).to_bytes(8, "little") + header
    return Stored(start, len(start) + end)


def nbytes(held: Iterable[Tensor]) -> int:
    return sum(tensor.nbytes for tensor in held)


def whole(content: bytes) -> Stored:
    return Stored(content, len(content))
