"""The file system of a folder that may not exist yet."""

import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from inference.process.filesystem import UNCOUNTED, free_disk_bytes, measure_free_space, nearest_existing


def test_a_folder_that_cannot_be_looked_up_is_measured_at_its_parent(tmp_path: Path) -> None:
    """Looking it up raises OSError, as for every path below a folder without search permission."""
    folder = tmp_path / ("x" * 300) / "models"
    assert nearest_existing(folder) == tmp_path
    assert free_disk_bytes(folder) > 0


def test_free_space_is_measured_without_statvfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "statvfs")
    monkeypatch.setattr(psutil, "disk_usage", lambda _: SimpleNamespace(free=7))
    num_bytes, num_files = measure_free_space(tmp_path)
    assert (num_bytes, num_files) == (7, UNCOUNTED)
