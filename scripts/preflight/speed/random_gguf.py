"""Writes GGUF files of Llama-like models whose blocks are random: the values do not affect the speed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

from scripts.bench.models import byte_level_vocabulary
from tuning.export.gguf_file.write import add_config

# Where a block has its float16 scales and minima, in bytes (ggml, src/ggml-common.h), and what they are: the
# weights have a mean of 0 and a deviation near 0.02, as those of a new model.
SCALES: Mapping[Type, Mapping[int, float]] = {
    Type.Q8_0: {0: 2.7e-4},
    Type.Q4_K: {0: 1e-4, 2: 7.5e-4},
    Type.Q6_K: {208: 1.5e-5},
}
# The types of a file's matrices, as llama.cpp's quantizer chooses them (src/llama-quant.cpp): of most, of the
# values and down projections of every other layer, and of the embedding.
FILE_TYPES: Mapping[str, tuple[Type, Type, Type]] = {
    "Q8_0": (Type.Q8_0, Type.Q8_0, Type.Q8_0),
    "Q4_K_M": (Type.Q4_K, Type.Q6_K, Type.Q6_K),
}
FINER = ("attn_v", "ffn_down")


def write_gguf(config: Any, file_type: str, path: Path) -> None:
    """Write a model of the config's shape, with its output layer tied to the embedding."""
    usual, finer, table = FILE_TYPES[file_type]
    writer, random = gguf.GGUFWriter(str(path), "llama"), np.random.default_rng(0)
    add_config(writer, config, path.stem)
    add_vocabulary(writer, config)
    head_dim = config.hidden_size // config.num_attention_heads
    keys = config.num_key_value_heads * head_dim
    shapes = {"attn_q": (config.hidden_size, config.hidden_size), "attn_k": (keys, config.hidden_size)}
    shapes |= {"attn_v": (keys, config.hidden_size), "attn_output": (config.hidden_size, config.hidden_size)}
    shapes |= dict.fromkeys(("ffn_gate", "ffn_up"), (config.intermediate_size, config.hidden_size))
    shapes |= {"ffn_down": (config.hidden_size, config.intermediate_size)}
    add_matrix(writer, "token_embd", (config.vocab_size, config.hidden_size), table, random)
    for layer in range(config.num_hidden_layers):
        for name, shape in shapes.items():
            is_finer = name in FINER and layer % 2 == 0
            add_matrix(writer, f"blk.{layer}.{name}", shape, finer if is_finer else usual, random)
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(config.hidden_size, np.float32))
    writer.add_tensor("output_norm.weight", np.ones(config.hidden_size, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_vocabulary(writer: gguf.GGUFWriter, config: Any) -> None:
    texts, merges = byte_level_vocabulary(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(texts)
    writer.add_token_types([1] * len(texts))
    writer.add_token_merges(list(map(" ".join, merges)))
    writer.add_eos_token_id(len(texts) - 1)  # </s>


def add_matrix(
    writer: gguf.GGUFWriter, name: str, shape: tuple[int, int], kind: Type, random: np.random.Generator
) -> None:
    outputs, inputs = shape
    values, width = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (outputs * inputs // values, width), np.uint8)
    for start, scale in SCALES[kind].items():
        blocks[:, start : start + 2] = np.frombuffer(np.float16(scale).tobytes(), np.uint8)
    writer.add_tensor(f"{name}.weight", blocks.reshape(outputs, -1), raw_dtype=kind)
