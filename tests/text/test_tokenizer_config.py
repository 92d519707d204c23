"""The tokenizer's configuration: special tokens as text, the template in use, nothing about the machine."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tokenizers import AddedToken
from transformers import AutoTokenizer

from inference.text.tokenizer_config import tokenizer_config

DEMO = Path(__file__).parent.parent.parent / "models" / "demo"


def fake_tokenizer(**init_kwargs: Any) -> SimpleNamespace:
    return SimpleNamespace(init_kwargs=init_kwargs, special_tokens_map={})


def test_a_real_tokenizers_configuration_is_that_of_its_file() -> None:
    tokenizer = AutoTokenizer.from_pretrained(DEMO)
    config = tokenizer_config(tokenizer, tokenizer.chat_template)
    saved = json.loads((DEMO / "tokenizer_config.json").read_text())
    for name in ("bos_token", "eos_token", "pad_token", "model_max_length"):
        value = saved[name]
        assert config[name] == (value["content"] if isinstance(value, dict) else value)
    assert config["chat_template"] == tokenizer.chat_template
    assert config["tokenizer_class"] == type(tokenizer).__name__
    assert json.loads(json.dumps(config)) == config


def test_special_tokens_are_texts_wherever_they_stand() -> None:
    token = AddedToken("<eos>", special=True)
    tokenizer = fake_tokenizer(added_tokens_decoder={7: token}, extra_special_tokens=[token, "<a>"])
    tokenizer.special_tokens_map = {"eos_token": token}
    assert tokenizer_config(tokenizer, None) == {
        "added_tokens_decoder": {"7": "<eos>"},
        "extra_special_tokens": ["<eos>", "<a>"],
        "eos_token": "<eos>",
        "tokenizer_class": "SimpleNamespace",
    }


@pytest.mark.parametrize(
    "private",
    [
        {"name_or_path": "/home/me/model"},
        {"vocab_file": "/home/me/vocab.txt"},
        {"token": "hf_secret"},
        {"cache_dir": "/home/me/.cache"},
        {"_commit_hash": "abc"},
        {"local_files_only": True},
    ],
)
def test_how_and_from_where_the_tokenizer_was_loaded_is_left_out(private: dict[str, Any]) -> None:
    assert tokenizer_config(fake_tokenizer(**private), None) == {"tokenizer_class": "SimpleNamespace"}


@pytest.mark.parametrize("value", [int(1e30), object(), {"a": object()}, [b"bytes"]])
def test_values_that_json_parsers_cannot_read_are_left_out(value: Any) -> None:
    assert "x" not in tokenizer_config(fake_tokenizer(x=value), None)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ a }}", "{{ a }}"),
        ({"default": "{{ b }}", "tool_use": "{{ c }}"}, "{{ b }}"),
        (None, None),
        ({}, None),
    ],
)
def test_the_template_is_the_one_that_the_server_applies(template: Any, expected: str | None) -> None:
    config = tokenizer_config(fake_tokenizer(chat_template="{{ overridden }}"), template)
    assert config.get("chat_template") == expected
