"""Stands in for a shape's files: the tensors of an FP8 checkpoint, and the config from a GGUF file's header.

Knows the layout of such files. The server's own code reads them.
"""

import io
import struct
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from checks.memory import try_build_on_meta
from checks.memory.model_size import QUANTIZATION_CONFIG
from hub.weight_headers.gguf import config_from_header
from inference.model.load.gguf.file.cursor import pack_string
from inference.model.load.gguf.file.header import header_start, read_header

INTEGER, FLOAT, TEXT = 4, 6, 8  # GGUF value types: uint32, float32, string


def fp8_tensors(raw: Mapping[str, Any]) -> dict[str, Tensor]:
    """The meta tensors of a checkpoint whose linear weights are FP8 with a scale per block."""
    plain = {name: value for name, value in raw.items() if name != QUANTIZATION_CONFIG}
    return quantize_to_fp8(try_build_on_meta(plain).to(torch.bfloat16).state_dict(), raw)


def quantize_to_fp8(tensors: Mapping[str, Tensor], raw: Mapping[str, Any]) -> dict[str, Tensor]:
    """The same tensors, but linear weights are FP8 with a scale per block of `weight_block_size`."""
    rows, columns = raw[QUANTIZATION_CONFIG]["weight_block_size"]
    result: dict[str, Tensor] = {}
    for name, weight in tensors.items():
        result[name] = weight
        if name.endswith("_proj.weight"):
            result[name] = weight.to(torch.float8_e4m3fn)
            blocks = (-(-weight.shape[0] // rows), -(-weight.shape[1] // columns))
            result[f"{name}_scale_inv"] = torch.empty(blocks, device="meta")
    return result


def config_from_gguf_header(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The config that the server reads from the header of a Llama's GGUF file."""
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
    table = b"".join(pack_string(name) + struct.pack("<IQIQ", 1, 1, 0, 0) for name in names)
    values = b"".join(pack_string(name) + pack_value(value) for name, value in settings.items())
    file = io.BytesIO(header_start(len(names), len(settings)) + values + table)
    size = file.getbuffer().nbytes
    return config_from_header(
        read_header(lambda start, stop: file.getvalue()[start:stop], size, size), size + 64
    )


def pack_value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", TEXT) + pack_string(value)
    struct_format, value_type = ("<If", FLOAT) if isinstance(value, float) else ("<II", INTEGER)
    return struct.pack(struct_format, value_type, value)
