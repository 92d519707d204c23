"""The names that transformers exports are read once for each installation."""

from pathlib import Path

import pytest

from inference.process.imports.exported_names import FILE_NAME, read_remembered

NAMES = {frozenset(("torch",)): {"modeling_tiny": {"TinyModel"}}, "tiny": {frozenset(): {}}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of an installed package, and a cache folder that is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for each in ("library/models", "library-1.0.dist-info"):
        (tmp_path / each).mkdir(parents=True)
    (tmp_path / "library-1.0.dist-info" / "RECORD").write_text("library/models/one.py")
    return tmp_path / "library" / "models"


def count_reads(folder: Path) -> int:
    """How often the folder is read by two starts, which both get its names."""
    reads: list[Path] = []

    def read_folder(path: Path) -> object:
        reads.append(path)
        return NAMES

    assert [read_remembered(read_folder, folder) for _ in range(2)] == [NAMES, NAMES]
    return len(reads)


def test_a_folder_is_read_by_the_first_start_only(folder: Path) -> None:
    assert count_reads(folder) == 1
    assert count_reads(folder) == 0


def test_another_installation_is_read_again(folder: Path) -> None:
    count_reads(folder)
    (folder.parent.parent / "library-1.0.dist-info" / "RECORD").write_text("library/models/one.py, two.py")
    assert count_reads(folder) == 1


def test_a_folder_without_a_record_of_its_installation_is_always_read(folder: Path) -> None:
    (folder.parent.parent / "library-1.0.dist-info" / "RECORD").unlink()
    assert count_reads(folder) == 2


def test_a_damaged_file_is_replaced(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "cache" / "hearth").mkdir(parents=True)
    (tmp_path / "cache" / "hearth" / FILE_NAME).write_bytes(b"damaged")
    assert count_reads(folder) == 1


def test_a_cache_folder_that_cannot_be_written_is_no_error(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert count_reads(folder) == 2


@pytest.mark.system("posix")
def test_a_link_to_an_installation_is_no_other_one(folder: Path, tmp_path: Path) -> None:
    count_reads(folder)
    (tmp_path / "linked").symlink_to(tmp_path)
    assert count_reads(tmp_path / "linked" / "library" / "models") == 0
