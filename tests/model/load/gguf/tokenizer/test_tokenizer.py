"""The tokenizer of a GGUF file is converted once, and converted again where what was kept is not whole."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inference.model.load.gguf.tokenizer import tokenizer as gguf_tokenizer
from inference.model.load.gguf.tokenizer.tokenizer import (
    FOLDER,
    MAX_FOLDERS,
    describe,
    keep,
    read_gguf_tokenizer,
)
from inference.process.cache_folder import cache_folder
from tests.tiny_models.gguf_files import tiny_gguf


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """The files that were converted; the cache folder is empty at first."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    converted: list[Path] = []
    convert = gguf_tokenizer.convert_tokenizer

    def count(source: Path) -> Any:
        converted.append(source)
        return convert(source)

    monkeypatch.setattr(gguf_tokenizer, "convert_tokenizer", count)
    return converted


def bare_gguf(folder: Path) -> Path:
    """A GGUF file alone: the tokenizer is in it."""
    path = tiny_gguf(folder)
    for file in folder.iterdir():
        if file != path and file.is_file():
            file.unlink()
    return path


def kept_folders() -> list[Path]:
    return list((cache_folder() / FOLDER).iterdir())


def test_a_second_load_converts_nothing_and_gives_the_same(tmp_path: Path, conversions: list[Path]) -> None:
    path = bare_gguf(tmp_path / "m")
    first, second = read_gguf_tokenizer(path), read_gguf_tokenizer(path)
    assert conversions == [path]
    assert describe(first) == describe(second)
    assert len(kept_folders()) == 1


def test_another_file_at_the_same_path_is_converted(tmp_path: Path, conversions: list[Path]) -> None:
    path = bare_gguf(tmp_path / "m")
    read_gguf_tokenizer(path)
    os.utime(path, (1, 1))
    read_gguf_tokenizer(path)
    assert conversions == [path, path]


def test_what_is_not_whole_is_converted_again(
    tmp_path: Path, conversions: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    path = bare_gguf(tmp_path / "m")
    expected = describe(read_gguf_tokenizer(path))
    (saved,) = kept_folders()
    content = (saved / "tokenizer.json").read_bytes()
    (saved / "tokenizer.json").write_bytes(content[: len(content) // 2])
    assert describe(read_gguf_tokenizer(path)) == expected
    assert conversions == [path, path]
    assert "is converted again" in caplog.text
    assert (saved / "tokenizer.json").read_bytes() == content


def remove_a_file(saved: Path) -> None:
    (saved / "tokenizer_config.json").unlink()


def add_a_template(saved: Path) -> None:
    (saved / "chat_template.jinja").write_text("forged")


def change_a_token(saved: Path) -> None:
    path = saved / "tokenizer.json"
    path.write_text(path.read_text().replace('"a"', '"?"', 1))


def let_all_write(saved: Path) -> None:
    saved.chmod(0o777)


@pytest.mark.parametrize("change", [remove_a_file, add_a_template, change_a_token, let_all_write])
def test_files_that_were_changed_or_that_others_may_write_are_not_used(
    tmp_path: Path, conversions: list[Path], change: Callable[[Path], None]
) -> None:
    path = bare_gguf(tmp_path / "m")
    expected = describe(read_gguf_tokenizer(path))
    change(*kept_folders())
    assert describe(read_gguf_tokenizer(path)) == expected
    assert conversions == [path, path]
    read_gguf_tokenizer(path)
    assert conversions == [path, path]


def test_a_tokenizer_that_changes_when_it_is_saved_is_not_kept(
    tmp_path: Path, conversions: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bare_gguf(tmp_path / "m")
    monkeypatch.setattr(gguf_tokenizer, "describe", lambda tokenizer: object())
    read_gguf_tokenizer(path)
    assert not kept_folders()


def test_the_oldest_leave(tmp_path: Path, conversions: list[Path]) -> None:
    tokenizer = read_gguf_tokenizer(bare_gguf(tmp_path / "m"))
    folder = cache_folder() / FOLDER
    for number in range(MAX_FOLDERS):
        keep(tokenizer, folder / str(number))
        os.utime(folder / str(number), (10**10 + number,) * 2)
    assert len(kept_folders()) == MAX_FOLDERS
    assert {str(number) for number in range(MAX_FOLDERS)} == {each.name for each in kept_folders()}
