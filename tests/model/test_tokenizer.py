"""A tokenizer_config.json from elsewhere: what it replaces, and when it is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from inference.errors import BadRequest
from inference.model.tokenizer import replace_settings
from tests import tiny


def replaced(folder: Path, told: Any) -> Any:
    path = folder / "mine.json"
    path.write_text(told if isinstance(told, str) else json.dumps(told))
    tokenizer = tiny.tokenizer()
    replace_settings(tokenizer, path)
    return tokenizer


def said(tokenizer: Any) -> str:
    return tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False)


def test_the_chat_template_is_replaced(tmp_path: Path) -> None:
    assert said(replaced(tmp_path, {"chat_template": "[{{ messages[0].content }}]"})) == "[hi]"


def test_templates_by_name_are_read_as_a_list(tmp_path: Path) -> None:
    several = [{"name": "default", "template": "one"}, {"name": "tool_use", "template": "two"}]
    assert said(replaced(tmp_path, {"chat_template": several})) == "one"


def test_special_tokens_are_replaced_in_both_forms(tmp_path: Path) -> None:
    told = {"eos_token": {"content": "<|im_end|>"}, "bos_token": "<|im_start|>", "pad_token": None}
    tokenizer = replaced(tmp_path, told)
    assert (tokenizer.eos_token_id, tokenizer.bos_token_id) == (4, 3)


def test_what_the_file_does_not_name_stays(tmp_path: Path) -> None:
    tokenizer = replaced(tmp_path, {})
    assert (tokenizer.chat_template, tokenizer.eos_token) == (tiny.TEMPLATE, "</s>")


def test_a_token_that_the_model_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"names as eos_token what the model does not have, got '<new>'"):
        replaced(tmp_path, {"eos_token": "<new>"})


@pytest.mark.parametrize("told", ["{", "[]", "[" * 5000])
def test_a_file_that_is_no_json_object_is_refused(told: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="TOKENIZER_CONFIG_PATH must"):
        replaced(tmp_path, told)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="can be read"):
        replace_settings(tiny.tokenizer(), tmp_path / "none.json")
