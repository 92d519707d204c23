"""The config of a GGUF file equals the one that transformers derives from the whole file."""

from pathlib import Path

from transformers import AutoConfig

from inference.model.load.gguf.config import read_gguf_config
from inference.model.load.gguf.header import TOKENS, read_header
from tests.gguf_files import tiny_gguf


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
