"""The file system of a folder that may not exist yet."""

import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from inference.process.filesystem import (
    UNCOUNTED,
    free_disk_bytes,
    inspect_folder,
    measure_free_space,
    nearest_existing,
)


def test_a_folder_that_cannot_be_looked_up_is_measured_at_its_parent(tmp_path: Path) -> None:
    """Looking it up raises OSError, as for every path below a folder without search permission."""
    folder = tmp_path / ("x" * 300) / "models"
    assert nearest_existing(folder) == tmp_path
    assert free_disk_bytes(folder) > 0


def test_free_space_is_measured_without_statvfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "statvfs", raising=False)
    monkeypatch.setattr(psutil, "disk_usage", lambda _: SimpleNamespace(free=7))
    num_bytes, num_files = measure_free_space(tmp_path)
    assert (num_bytes, num_files) == (7, UNCOUNTED)


def test_links_that_are_not_made_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "symlink_to", lambda *_: None)  # as with Wine
    assert not inspect_folder(tmp_path).has_links
