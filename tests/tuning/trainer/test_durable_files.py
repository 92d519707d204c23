"""A folder is replaced whole, and a crash at any point leaves one that can be read."""

import os
from pathlib import Path

import pytest

from tuning.trainer.durable_files import last_whole, replace_folder, sync, write_json


def put(text: str, folder: Path) -> None:
    replace_folder(folder, lambda new: write_json(new / "a.json", {"text": text}))


def text_of(folder: Path) -> str:
    last = last_whole(folder)
    return "" if last is None else (last / "a.json").read_text()


def test_the_last_folder_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    assert last_whole(folder) is None
    for text in ("one", "two"):
        put(text, folder)
        assert text in text_of(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_a_failure_while_writing_leaves_the_former_folder(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    put("one", folder)

    def fail(new: Path) -> None:
        write_json(new / "a.json", {"text": "half"})
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        replace_folder(folder, fail)
    assert "one" in text_of(folder) and [path.name for path in tmp_path.iterdir()] == ["state"]
    put("two", folder)
    assert "two" in text_of(folder)


def test_a_kill_between_the_renames_leaves_the_former_folder(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    put("one", folder)
    folder.rename(tmp_path / "state.old")
    assert "one" in text_of(folder)
    put("two", folder)
    assert "two" in text_of(folder)


def test_windows_flushes_files_open_for_writing_and_no_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = []

    def open_file(path: Path, flags: int) -> int:
        modes.append(flags)
        return os_open(path, flags)

    file, os_open = tmp_path / "a", os.open
    file.touch()
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", open_file)
        patch.setattr(os, "name", "nt")
        sync(tmp_path)
        sync(file)
    assert modes == [os.O_RDWR]
