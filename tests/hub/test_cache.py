"""The records in a model's cache folder, which other programs and crashes may have damaged."""

import json
from pathlib import Path
from typing import Any

import pytest

from hub.cache import ModelCache

COMMIT = "a" * 40


def cache_with_tree(folder: Path, content: str) -> ModelCache:
    """A cache in which huggingface_hub recorded `content` as the files of COMMIT."""
    (folder / "trees").mkdir()
    (folder / "trees" / f"{COMMIT}.json").write_text(content)
    return ModelCache(folder)


@pytest.mark.parametrize("entry", [1, None, {}, [], {"size": "7"}, {"size": None, "lfs_size": None}], ids=str)
def test_a_damaged_record_of_a_versions_files_counts_as_none(tmp_path: Path, entry: Any) -> None:
    content = json.dumps({"files": {"whole": {"size": 7}, "damaged": entry}})
    assert cache_with_tree(tmp_path, content).tree_files(COMMIT) == {}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"files": []}', '{"files": 3}'])
def test_a_record_without_files_counts_as_none(tmp_path: Path, content: str) -> None:
    assert cache_with_tree(tmp_path, content).tree_files(COMMIT) == {}


def test_a_whole_record_gives_the_sizes_of_the_contents(tmp_path: Path) -> None:
    content = json.dumps({"files": {"a.json": {"size": 7}, "a.bin": {"size": 130, "lfs_size": 9000}}})
    assert cache_with_tree(tmp_path, content).tree_files(COMMIT) == {"a.json": 7, "a.bin": 9000}
