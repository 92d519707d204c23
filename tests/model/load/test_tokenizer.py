"""A tokenizer_config.json from TOKENIZER_CONFIG_PATH: which settings it replaces, and when it is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from inference.errors import BadRequest
from inference.model.load.tokenizer import open_tokenizer, read_chat_template, replace_settings
from tests.tiny_models import tiny

TEXTS = ("the quick brown fox jumps over the lazy dog", "ça va 東京", "one, two, three: 1 2 3")


def replace_in(folder: Path, settings: Any) -> Any:
    path = folder / "mine.json"
    path.write_text(settings if isinstance(settings, str) else json.dumps(settings))
    tokenizer = tiny.tokenizer()
    replace_settings(tokenizer, path)
    return tokenizer


def render(tokenizer: Any) -> str:
    return tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False)


def test_a_sentencepiece_model_alone_is_a_tokenizer(tmp_path: Path) -> None:
    """As in google/mt5-base. transformers reads it with the package protobuf."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 10),
        model_prefix=str(tmp_path / "tokenizer"),
        model_type="bpe",
        vocab_size=340,
        byte_fallback=True,
        minloglevel=2,
    )
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    tokenizer = open_tokenizer(tmp_path, trust_remote_code=False)
    assert tokenizer.decode(tokenizer.encode(TEXTS[0]), skip_special_tokens=True) == TEXTS[0]


def test_the_chat_template_is_replaced(tmp_path: Path) -> None:
    assert render(replace_in(tmp_path, {"chat_template": "[{{ messages[0].content }}]"})) == "[hi]"


def test_named_templates_are_read_from_a_list(tmp_path: Path) -> None:
    several = [{"name": "default", "template": "one"}, {"name": "tool_use", "template": "two"}]
    assert render(replace_in(tmp_path, {"chat_template": several})) == "one"


def test_special_tokens_are_replaced_in_both_forms(tmp_path: Path) -> None:
    settings = {"eos_token": {"content": "<|im_end|>"}, "bos_token": "<|im_start|>", "pad_token": None}
    tokenizer = replace_in(tmp_path, settings)
    assert (tokenizer.eos_token_id, tokenizer.bos_token_id) == (4, 3)


def test_settings_that_the_file_does_not_name_stay(tmp_path: Path) -> None:
    tokenizer = replace_in(tmp_path, {})
    assert (tokenizer.chat_template, tokenizer.eos_token) == (tiny.TEMPLATE, "</s>")


def test_a_token_that_the_model_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"sets eos_token to a token that the model .*, got '<new>'"):
        replace_in(tmp_path, {"eos_token": "<new>"})


@pytest.mark.parametrize("settings", ["{", "[]", "[" * 5000])
def test_a_file_that_is_not_a_json_object_is_refused(settings: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="TOKENIZER_CONFIG_PATH must"):
        replace_in(tmp_path, settings)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"must be a readable tokenizer_config\.json"):
        replace_settings(tiny.tokenizer(), tmp_path / "none.json")


def test_a_chat_template_is_a_file_or_the_text_itself(tmp_path: Path) -> None:
    (tmp_path / "chat.jinja").write_text("Hello {{ name }}")
    assert read_chat_template(str(tmp_path / "chat.jinja")) == "Hello {{ name }}"
    assert read_chat_template("{% if a %}b{% endif %}") == "{% if a %}b{% endif %}"


@pytest.mark.parametrize("template", ["chatml", "/no/such/file.jinja", "/"])
def test_neither_a_file_nor_a_template_is_refused(template: str) -> None:
    with pytest.raises(
        BadRequest, match=r"^CHAT_TEMPLATE must be the path of a readable file, or a template"
    ):
        read_chat_template(template)
