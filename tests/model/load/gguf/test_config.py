"""The config of a GGUF file equals the one that transformers derives from the whole file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from transformers import AutoConfig

from inference.model.load.gguf.config import read_gguf_config
from inference.model.load.gguf.header import TOKENS, read_header
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


def write_settings(path: Path, architecture: str, settings: Mapping[str, Any]) -> Path:
    """A file with these settings, a vocabulary of 96 tokens, and no tensor of a model."""
    writer = gguf.GGUFWriter(str(path), architecture)
    for name, value in settings.items():
        if isinstance(value, list):
            writer.add_array(f"{architecture}.{name}", value)
        elif isinstance(value, float):
            writer.add_float32(f"{architecture}.{name}", value)
        else:
            writer.add_uint32(f"{architecture}.{name}", value)
    writer.add_token_list([f"<{number}>" for number in range(96)])
    writer.add_tensor("a", np.zeros(8, dtype=np.float32))
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


@pytest.mark.parametrize(
    ("architecture", "settings", "expected"),
    [
        ("qwen3", {"attention.key_length": 32}, {"head_dim": 32, "vocab_size": 96}),
        ("starcoder2", {"attention.head_count_kv": 4}, {"num_key_value_heads": 4, "vocab_size": 96}),
        ("gpt2", {"context_length": 64}, {"n_positions": 64, "vocab_size": 96}),
        ("lfm2", LFM2, {"layer_types": ["conv", "full_attention"], "vocab_size": 96}),
    ],
)
def test_settings_that_transformers_does_not_read_are_in_the_config(
    tmp_path: Path, architecture: str, settings: Mapping[str, Any], expected: Mapping[str, Any]
) -> None:
    config = read_gguf_config(write_settings(tmp_path / "a.gguf", architecture, SIZES | settings))
    assert {name: getattr(config, name) for name in expected} == expected
