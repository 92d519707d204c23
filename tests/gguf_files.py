"""A tiny Llama as a GGUF file, as llama.cpp's converter writes one: 8-bit weights, and names of its own."""

import json
from pathlib import Path

import gguf
import numpy as np
from safetensors.torch import load_file
from transformers import AutoTokenizer

from tests import tiny

WHOLE = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}
OF_A_LAYER = {
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


def write(folder: Path, path: Path, most: int = 0, apart: bool = False) -> Path:
    """The tiny Llama in `folder` as a GGUF file; in several, where one may have `most` tensors, and where the
    settings are `apart` none in the first. Gives the first."""
    raw = json.loads((folder / "config.json").read_text())
    heads, groups = raw["num_attention_heads"], raw["num_key_value_heads"]
    made = gguf.GGUFWriter(str(path), "llama", split_max_tensors=most, small_first_shard=apart)
    made.add_name("tiny")
    made.add_context_length(raw["max_position_embeddings"])
    made.add_embedding_length(raw["hidden_size"])
    made.add_block_count(raw["num_hidden_layers"])
    made.add_feed_forward_length(raw["intermediate_size"])
    made.add_head_count(heads)
    made.add_head_count_kv(groups)
    made.add_layer_norm_rms_eps(raw["rms_norm_eps"])
    made.add_rope_dimension_count(raw["hidden_size"] // heads)
    made.add_rope_freq_base(10000.0)
    vocabulary(made, folder, raw["vocab_size"])
    for name, weight in load_file(folder / "model.safetensors").items():
        values = weight.float().numpy()
        if "q_proj" in name or "k_proj" in name:
            values = interleaved(values, heads if "q_proj" in name else groups)
        add(made, renamed(name), values)
    made.write_header_to_file(path)
    made.write_kv_data_to_file()
    made.write_tensors_to_file()
    made.close()
    return path if path.exists() else path.with_name(f"{path.stem}-00001-of-{len(made.tensors):05}.gguf")


def vocabulary(made: gguf.GGUFWriter, folder: Path, size: int) -> None:
    known = AutoTokenizer.from_pretrained(folder).get_vocab()
    tokens = sorted(known, key=known.__getitem__)
    tokens += ["zq", "zx", *(f"<more {number}>" for number in range(size - len(tokens) - 2))]
    made.add_tokenizer_model("gpt2")
    made.add_token_list(tokens)
    made.add_token_types([1] * size)
    made.add_token_merges(["z q", "z x"])  # of one alone some transformers make no list
    made.add_bos_token_id(1)
    made.add_eos_token_id(2)


def renamed(name: str) -> str:
    module = name.removesuffix(".weight")
    if module in WHOLE:
        return f"{WHOLE[module]}.weight"
    _, _, layer, part = module.split(".", 3)
    return f"blk.{layer}.{OF_A_LAYER[part]}.weight"


def interleaved(values: np.ndarray, heads: int) -> np.ndarray:
    """As llama.cpp rotates: the two halves of each head's rows take turns."""
    rows = values.reshape(heads, 2, len(values) // heads // 2, *values.shape[1:])
    return rows.swapaxes(1, 2).reshape(values.shape)


def add(made: gguf.GGUFWriter, name: str, values: np.ndarray) -> None:
    if values.ndim == 1:
        made.add_tensor(name, values)
    else:
        made.add_tensor(name, gguf.quants.quantize(values, EIGHT_BITS), raw_dtype=EIGHT_BITS)


def tiny_gguf(folder: Path, name: str = "tiny-Q8_0.gguf", most: int = 0) -> Path:
    """A folder with that file alone, or with its parts, beside the tiny Llama's own, in `whole`."""
    folder.mkdir(parents=True, exist_ok=True)
    return write(tiny.llama(folder.parent / f"{folder.name}-whole"), folder / name, most)
