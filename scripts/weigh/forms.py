"""What the files of a shape would hold, without them: tensors of FP8 checkpoints, the head of a GGUF file.

Knows how such files are laid out; the figures are the server's own.
"""

import io
import struct
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from checks.measure import skeleton
from checks.measure.measure import QUANTISED
from checks.source.gguf import config
from inference.model.gguf.head import begun, head, named

NUMBER, DECIMAL, TEXT = 4, 6, 8  # kinds of a GGUF setting's value: 32 bits, a float of 32 bits, text


def in_eight_bits(raw: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors of a checkpoint whose layers' weights are FP8 with a scale for each block."""
    plain = {name: value for name, value in raw.items() if name != QUANTISED}
    return in_blocks(skeleton(plain).to(torch.bfloat16).state_dict(), raw)


def in_blocks(held: Mapping[str, Tensor], raw: Mapping[str, Any]) -> dict[str, Tensor]:
    """The same tensors with the layers' weights in FP8, each with a scale for each of its blocks."""
    rows, columns = raw[QUANTISED]["weight_block_size"]
    found: dict[str, Tensor] = {}
    for name, weight in held.items():
        found[name] = weight
        if name.endswith("_proj.weight"):
            found[name] = weight.to(torch.float8_e4m3fn)
            blocks = (-(-weight.shape[0] // rows), -(-weight.shape[1] // columns))
            found[f"{name}_scale_inv"] = torch.empty(blocks, device="meta")
    return found


def by_head(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The config that the server takes from the head of a Llama's GGUF file."""
    settings = {
        "general.architecture": "llama",
        "general.name": "llama",
        "llama.context_length": raw["max_position_embeddings"],
        "llama.embedding_length": raw["hidden_size"],
        "llama.block_count": raw["num_hidden_layers"],
        "llama.feed_forward_length": raw["intermediate_size"],
        "llama.attention.head_count": raw["num_attention_heads"],
        "llama.attention.head_count_kv": raw["num_key_value_heads"],
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 5e5,
        "llama.vocab_size": raw["vocab_size"],
    }
    names = ["token_embd.weight"] if raw["tie_word_embeddings"] else ["token_embd.weight", "output.weight"]
    table = b"".join(named(name) + struct.pack("<IQIQ", 1, 1, 0, 0) for name in names)
    values = b"".join(named(name) + value_of(value) for name, value in settings.items())
    file = io.BytesIO(begun(len(names), len(settings)) + values + table)
    size = file.getbuffer().nbytes
    return config(head(lambda start, stop: file.getvalue()[start:stop], size, size), size + 64)


def value_of(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", TEXT) + named(value)
    form, kind = ("<If", DECIMAL) if isinstance(value, float) else ("<II", NUMBER)
    return struct.pack(form, kind, value)
