"""Copies of a model have one digest; another revision of it has another one."""

import shutil
from pathlib import Path

import pytest

from inference.model.load.weights_digest import weights_digest


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """The weights of a model, in the first of two folders."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(bytes(range(256)) * 1000)
    shutil.copytree(folder, tmp_path / "copy")
    return folder / "model.safetensors"


def test_a_copy_has_the_same_digest(weights: Path) -> None:
    assert weights_digest(weights.parent) == weights_digest(weights.parent.with_name("copy"))


@pytest.mark.parametrize("place", [0, 100_000, -1])
def test_changed_weights_have_another_digest(weights: Path, place: int) -> None:
    before, content = weights_digest(weights.parent), bytearray(weights.read_bytes())
    content[place] ^= 1
    weights.write_bytes(content)
    assert weights_digest(weights.parent) != before


def test_a_model_in_a_gguf_file_has_the_digest_of_that_file(tmp_path: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(name.encode())
    assert weights_digest(tmp_path / "a.gguf") != weights_digest(tmp_path / "b.gguf")
