"""Tiny models as GGUF files like those of llama.cpp's converter, with its tensor names and 8-bit weights."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import gguf
import numpy as np
from safetensors.torch import load_file
from transformers import AutoTokenizer

from tests.tiny_models import tiny

MODULE_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}
LAYER_MODULE_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
EIGHT_BITS = gguf.GGMLQuantizationType.Q8_0


def write(
    folder: Path,
    path: Path,
    max_tensors: int = 0,
    small_first_shard: bool = False,
    value_type: gguf.GGMLQuantizationType = EIGHT_BITS,
    further: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> Path:
    """Writes the tiny Llama in `folder` as a GGUF file; returns its path, or that of the first shard.

    max_tensors        most tensors of a shard; 0: a single file
    small_first_shard  the first shard has only metadata
    value_type         of the matrices
    further            more tensors, by their names in the file
    """
    raw = json.loads((folder / "config.json").read_text())
    num_heads, num_kv_heads = raw["num_attention_heads"], raw["num_key_value_heads"]
    writer = gguf.GGUFWriter(
        str(path), "llama", split_max_tensors=max_tensors, small_first_shard=small_first_shard
    )
    writer.add_name("tiny")
    writer.add_context_length(raw["max_position_embeddings"])
    writer.add_embedding_length(raw["hidden_size"])
    writer.add_block_count(raw["num_hidden_layers"])
    writer.add_feed_forward_length(raw["intermediate_size"])
    writer.add_head_count(num_heads)
    writer.add_head_count_kv(num_kv_heads)
    writer.add_layer_norm_rms_eps(raw["rms_norm_eps"])
    writer.add_rope_dimension_count(raw["hidden_size"] // num_heads)
    writer.add_rope_freq_base(10000.0)
    add_vocabulary(writer, folder, raw["vocab_size"])
    for name, weight in load_file(folder / "model.safetensors").items():
        values = weight.float().numpy()
        if "q_proj" in name or "k_proj" in name:
            values = interleave_heads(values, num_heads if "q_proj" in name else num_kv_heads)
        add_tensor(writer, gguf_name(name), values, value_type)
    for name, values in further.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file(path)
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path if path.exists() else path.with_name(f"{path.stem}-00001-of-{len(writer.tensors):05}.gguf")


def add_vocabulary(writer: gguf.GGUFWriter, folder: Path, size: int) -> None:
    known = AutoTokenizer.from_pretrained(folder).get_vocab()
    tokens = sorted(known, key=known.__getitem__)
    tokens += ["zq", "zx", *(f"<more {number}>" for number in range(size - len(tokens) - 2))]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * size)
    writer.add_token_merges(["z q", "z x"])  # with a single merge some versions of transformers make no list
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def gguf_name(name: str) -> str:
    module, _, kind = name.rpartition(".")
    if module in MODULE_NAMES:
        return f"{MODULE_NAMES[module]}.{kind}"
    _, _, layer, submodule = module.split(".", 3)
    return f"blk.{layer}.{LAYER_MODULE_NAMES[submodule]}.{kind}"


def interleave_heads(values: np.ndarray, num_heads: int) -> np.ndarray:
    """llama.cpp's order for rotation: the two halves of each head's rows alternate."""
    rows = values.reshape(num_heads, 2, len(values) // num_heads // 2, *values.shape[1:])
    return rows.swapaxes(1, 2).reshape(values.shape)


def add_tensor(
    writer: gguf.GGUFWriter, name: str, values: np.ndarray, value_type: gguf.GGMLQuantizationType = EIGHT_BITS
) -> None:
    if values.ndim == 1:
        writer.add_tensor(name, values)
    else:
        writer.add_tensor(name, gguf.quants.quantize(values, value_type), raw_dtype=value_type)


def write_experts(model: Any, path: Path, expert_type: gguf.GGMLQuantizationType = EIGHT_BITS) -> Path:
    """Writes a tiny Qwen 3 with experts, whose stacks have values of `expert_type`, as a GGUF file."""
    config = model.config
    writer = gguf.GGUFWriter(str(path), "qwen3moe")
    writer.add_name("tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_count(config.num_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN3MOE, config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        module, values = name.removesuffix(".weight"), weight.float().numpy()
        if module.endswith("experts.gate_up_proj"):
            gate, up = np.split(values, 2, axis=1)
            layer = module.split(".")[2]
            add_tensor(writer, f"blk.{layer}.ffn_gate_exps.weight", gate, expert_type)
            add_tensor(writer, f"blk.{layer}.ffn_up_exps.weight", up, expert_type)
        elif module.endswith("mlp.gate"):
            writer.add_tensor(f"{names.get_name(module)}.weight", values)
        else:
            value_type = expert_type if "experts" in module else EIGHT_BITS
            add_tensor(writer, f"{names.get_name(module)}.weight", values, value_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_gpt_oss(model: Any, path: Path, expert_type: gguf.GGMLQuantizationType) -> Path:
    """Writes a tiny gpt-oss as llama.cpp's converter does: gate and up apart, experts of `expert_type`."""
    config, rope = model.config, model.config.rope_parameters
    writer = gguf.GGUFWriter(str(path), "gpt-oss")
    writer.add_name("tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_expert_feed_forward_length(config.intermediate_size)
    writer.add_expert_count(config.num_local_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_sliding_window(config.sliding_window)
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(rope["factor"])
    writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    writer.add_vocab_size(config.vocab_size)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GPT_OSS, config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        for part_name, values in gpt_oss_tensors(name, weight.float().numpy()):
            gguf_name = names.get_name(part_name, try_suffixes=(".weight", ".bias"))
            is_matrix = values.ndim > 1 and part_name.endswith(".weight") and "router" not in part_name
            if is_matrix:
                add_tensor(writer, gguf_name, values, expert_type if values.ndim == 3 else EIGHT_BITS)
            else:
                writer.add_tensor(gguf_name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def gpt_oss_tensors(name: str, values: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """The tensors that the converter makes of a parameter, by names that gguf-py knows."""
    if name.endswith("sinks"):
        return [(f"{name}.weight", values)]
    if ".experts." not in name:
        return [(name, values)]
    suffix = ".bias" if name.endswith("_bias") else ".weight"
    module, rows = name.removesuffix("_bias"), values if suffix == ".bias" else values.swapaxes(1, 2)
    if module.endswith("down_proj"):
        return [(module + suffix, np.ascontiguousarray(rows))]
    return [
        (module.replace("gate_up_proj", matrix) + suffix, np.ascontiguousarray(rows[:, first::2]))
        for first, matrix in enumerate(("gate_proj", "up_proj"))
    ]


def tiny_gguf(folder: Path, name: str = "tiny-Q8_0.gguf", max_tensors: int = 0) -> Path:
    """A folder with only that file or its shards; the tiny Llama's own files are in `<folder>-whole`."""
    folder.mkdir(parents=True, exist_ok=True)
    return write(tiny.llama(folder.parent / f"{folder.name}-whole"), folder / name, max_tensors)
