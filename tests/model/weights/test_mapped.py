"""Weights that are still in their file leave this process's memory when they are packed; others stay."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from inference.model.weights.mapped import forget, forget_unused, mapped_files
from inference.resident import resident

SIZE = 64 << 20


def mapped(path: Path) -> Tensor:
    path.write_bytes(b"\x07" * SIZE)
    return torch.from_file(str(path), shared=False, size=SIZE, dtype=torch.uint8)


def test_what_is_in_a_file_leaves_memory_and_can_be_read_again(tmp_path: Path) -> None:
    weight = mapped(tmp_path / "weights")
    assert int(weight.max()) == 7
    there = resident().files
    forget(weight, mapped_files())
    assert there - resident().files > 0.9 * SIZE
    assert int(weight.min()) == 7


def test_what_is_in_no_file_or_not_in_one_piece_is_left_alone(tmp_path: Path) -> None:
    own, file = torch.full((SIZE,), 5, dtype=torch.uint8), mapped(tmp_path / "weights")
    assert int(file.max()) == 7
    there = resident()
    forget(own, mapped_files())
    forget(file.view(2, -1).T, mapped_files())
    forget(file, [])
    assert abs(resident().files - there.files) < SIZE / 10
    assert int(own.min()) == 5


@pytest.mark.parametrize(("packed", "kept"), [(False, 7), (True, 9)])
def test_what_a_model_in_fewer_bits_has_changed_is_left(tmp_path: Path, packed: bool, kept: int) -> None:
    """As gptqmodel changes zero points in place: without these pages they would be the file's again."""
    beside = mapped(tmp_path / "model.safetensors")
    beside.fill_(9)
    model = nn.Linear(1, 1)
    model.is_quantized = packed
    forget_unused(model)
    assert int(beside[SIZE // 2]) == kept
