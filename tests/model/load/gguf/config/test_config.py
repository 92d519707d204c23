"""The config of a GGUF file equals the one that transformers derives from the whole file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from transformers import AutoConfig

from inference.model.load.gguf.config.config import read_gguf_config
from inference.model.load.gguf.file.header import TOKENS, read_header
from tests.tiny_models.gguf_files import tiny_gguf


def test_the_config_is_that_of_the_whole_file(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path)
    expected = AutoConfig.from_pretrained(path.parent, gguf_file=path.name)
    config = read_gguf_config(path)
    assert type(config) is type(expected)
    assert config.to_dict() == expected.to_dict()
    assert config.name_or_path == str(tmp_path)


def test_the_settings_kept_of_a_header_hold_no_value_for_each_token(tmp_path: Path) -> None:
    data = tiny_gguf(tmp_path).read_bytes()
    header = read_header(lambda start, end: data[start:end], len(data), len(data))
    assert header.vocab_size == 320
    assert TOKENS.encode() in data and b"tokenizer.ggml.token_type" in data
    assert sum(map(len, header.metadata.values())) < 2000
    assert not {name for name in header.metadata if name.startswith("tokenizer.ggml.token")}


def write_settings(
    path: Path, architecture: str, settings: Mapping[str, Any], tensors: Sequence[str] = ("a",)
) -> Path:
    """A file with these settings, a vocabulary of 96 tokens, and tensors of 8 values."""
    writer = gguf.GGUFWriter(str(path), architecture)
    for name, value in settings.items():
        key = name if name.startswith("tokenizer.") else f"{architecture}.{name}"
        if isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        else:
            writer.add_uint32(key, value)
    writer.add_token_list([f"<{number}>" for number in range(96)])
    for tensor in tensors:
        writer.add_tensor(tensor, np.zeros(8, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


SIZES = {"block_count": 2, "embedding_length": 64, "feed_forward_length": 96, "attention.head_count": 4}
LFM2 = {
    "context_length": 64,
    "attention.head_count_kv": [0, 2],
    "attention.layer_norm_rms_epsilon": 1e-5,
    "shortconv.l_cache": 3,
    "rope.freq_base": 1e6,
}
GEMMA4 = {
    "attention.sliding_window_pattern": [True, False],
    "attention.head_count_kv": [2, 1],
    "attention.key_length": 32,
    "attention.key_length_swa": 16,
    "attention.sliding_window": 8,
    "feed_forward_length": [96, 192],
    "final_logit_softcapping": 30.0,
}
CAPS = {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 4.0}
EXPERTS = {"expert_count": 4, "expert_used_count": 2}
PARTIAL = {"rope.dimension_count": 12}


@pytest.mark.parametrize(
    ("architecture", "settings", "expected"),
    [
        ("qwen3", {"attention.key_length": 32}, {"head_dim": 32, "vocab_size": 96}),
        ("starcoder2", {"attention.head_count_kv": 4}, {"num_key_value_heads": 4, "vocab_size": 96}),
        ("gpt2", {"context_length": 64}, {"n_positions": 64, "n_inner": 96, "vocab_size": 96}),
        ("lfm2", LFM2, {"layer_types": ["conv", "full_attention"], "vocab_size": 96}),
        ("llama", EXPERTS, {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}),
        ("mamba", {"ssm.dt_b_c_rms": True}, {"model_type": "falcon_mamba"}),
        ("phi3", {"attention.sliding_window": 8}, {"sliding_window": 8}),
        ("phi3", {"attention.sliding_window": 0}, {"sliding_window": None}),
        ("gemma", {"attention.key_length": 24}, {"head_dim": 24, "hidden_size": 64, "vocab_size": 96}),
        ("gemma2", {"attention.key_length": 24} | CAPS, {"query_pre_attn_scalar": 24} | CAPS),
        ("gemma2", {"attention.key_length": 24, "block_count": 46}, {"query_pre_attn_scalar": 16}),
        ("gemma3", {"attention.key_length": 24}, {"query_pre_attn_scalar": 24}),
        ("gemma3", {"attention.key_length": 24, "block_count": 62}, {"query_pre_attn_scalar": 16}),
        (
            "gemma4",
            GEMMA4,
            {"use_double_wide_mlp": True, "layer_types": ["sliding_attention", "full_attention"]},
        ),
        ("nemotron", {"attention.layer_norm_epsilon": 0.5}, {"norm_eps": 0.5}),
        ("falcon", {"attention.layer_norm_epsilon": 0.5}, {"layer_norm_epsilon": 0.5}),
        ("llama", {"tokenizer.ggml.eos_token_id": 7}, {"eos_token_id": 7}),
        (
            "llama",
            {"tokenizer.ggml.eos_token_id": 7, "tokenizer.ggml.eot_token_id": 9},
            {"eos_token_id": [7, 9]},
        ),
    ],
)
def test_settings_that_transformers_does_not_read_are_in_the_config(
    tmp_path: Path, architecture: str, settings: Mapping[str, Any], expected: Mapping[str, Any]
) -> None:
    config = read_gguf_config(write_settings(tmp_path / "a.gguf", architecture, SIZES | settings))
    assert {name: getattr(config, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("architecture", "settings", "tensor", "expected"),
    [
        ("falcon", {"attention.head_count_kv": 2}, "blk.0.attn_norm_2.weight", 2),
        ("falcon", {"attention.head_count_kv": 2}, "blk.0.attn_norm.weight", 1),
        ("falcon", {"attention.head_count_kv": 1}, "blk.0.attn_norm.weight", None),
    ],
)
def test_the_norms_of_a_falcon_are_those_of_its_tensors(
    tmp_path: Path, architecture: str, settings: Mapping[str, Any], tensor: str, expected: int | None
) -> None:
    path = write_settings(tmp_path / "a.gguf", architecture, SIZES | settings, [tensor])
    config = read_gguf_config(path)
    assert config.num_ln_in_parallel_attn == expected
    assert config.new_decoder_architecture == (expected is not None)


@pytest.mark.parametrize("architecture", ["phi2", "phi3", "stablelm", "nemotron"])
def test_the_part_of_a_head_that_rotates_is_that_of_the_file(tmp_path: Path, architecture: str) -> None:
    config = read_gguf_config(write_settings(tmp_path / "a.gguf", architecture, SIZES | PARTIAL))
    assert config.rope_parameters["partial_rotary_factor"] == 0.75
