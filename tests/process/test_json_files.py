"""A large file of JSON is parsed once for several readers, each of which may change what it gets."""

import json
from pathlib import Path
from typing import Any

import pytest

from inference.process import json_files

VALUE = {"added_tokens": [{"id": 1, "content": "<s>"}], "model": {"vocab": {"a": 0}}, "version": 1.5}


@pytest.fixture
def parsed_texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were parsed."""
    texts, parse = list[str](), json_files.parse
    monkeypatch.setattr(json_files, "parse", lambda text: texts.append(text) or parse(text))
    return texts


def read(path: Path) -> Any:
    with open(path, encoding="utf-8") as file:
        return json_files.load(file)


def test_a_file_is_parsed_once_for_readers_that_change_it(tmp_path: Path, parsed_texts: list[str]) -> None:
    (path := tmp_path / "tokenizer.json").write_text(json.dumps(VALUE))
    with json_files.parsed_once():
        first = read(path)
        assert first == VALUE
        first.pop("added_tokens")[0].pop("id")
        assert read(path) == VALUE
    assert len(parsed_texts) == 1


def test_a_file_is_read_again_after_the_context(tmp_path: Path) -> None:
    (path := tmp_path / "tokenizer.json").write_text("[1]")
    with json_files.parsed_once():
        assert read(path) == [1]
    path.write_text("[2]")
    assert read(path) == [2]
    with json_files.parsed_once():
        assert read(path) == [2]


@pytest.mark.parametrize(
    "text", ['{"a": NaN}', '["\\ud800"]', "[" * 3 + "1e400" + "]" * 3, '{"a": 1, "a": 2}']
)
def test_what_json_accepts_is_accepted(text: str, tmp_path: Path) -> None:
    (path := tmp_path / "tokenizer.json").write_text(text)
    with json_files.parsed_once():
        assert repr(read(path)) == repr(json.loads(text))


def test_what_json_refuses_is_refused(tmp_path: Path) -> None:
    (path := tmp_path / "tokenizer.json").write_text("{")
    with json_files.parsed_once(), pytest.raises(json.JSONDecodeError):
        read(path)
