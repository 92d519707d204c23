"""The file system of a folder that may not exist yet."""

from pathlib import Path

from inference.process.filesystem import free_disk_bytes, nearest_existing


def test_a_folder_that_cannot_be_looked_up_is_measured_at_its_parent(tmp_path: Path) -> None:
    """Looking it up raises OSError, as for every path below a folder without search permission."""
    folder = tmp_path / ("x" * 300) / "models"
    assert nearest_existing(folder) == tmp_path
    assert free_disk_bytes(folder) > 0
