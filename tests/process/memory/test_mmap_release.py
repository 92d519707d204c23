"""Mapped weights leave this process's memory when they are packed; other weights stay."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from inference.process.memory.mmap_release import mapped_files, release_unused, release_weight
from inference.process.memory.rss import resident_memory

SIZE = 64 << 20


def map_weights(path: Path) -> Tensor:
    path.write_bytes(b"\x07" * SIZE)
    return torch.from_file(str(path), shared=False, size=SIZE, dtype=torch.uint8)


def test_a_mapped_weight_leaves_memory_and_can_be_read_again(tmp_path: Path) -> None:
    weight = map_weights(tmp_path / "weights")
    assert int(weight.max()) == 7
    before = resident_memory().files
    release_weight(weight, mapped_files())
    assert before - resident_memory().files > 0.9 * SIZE
    assert int(weight.min()) == 7


def test_unmapped_or_non_contiguous_weights_are_left_alone(tmp_path: Path) -> None:
    own, file = torch.full((SIZE,), 5, dtype=torch.uint8), map_weights(tmp_path / "weights")
    assert int(file.max()) == 7
    before = resident_memory()
    release_weight(own, mapped_files())
    release_weight(file.view(2, -1).T, mapped_files())
    release_weight(file, [])
    assert abs(resident_memory().files - before.files) < SIZE / 10
    assert int(own.min()) == 5


@pytest.mark.parametrize(("is_quantized", "expected"), [(False, 7), (True, 9)])
def test_changed_pages_of_a_quantized_model_are_left(
    tmp_path: Path, is_quantized: bool, expected: int
) -> None:
    """gptqmodel changes zero points in place: releasing these pages would restore the file's values."""
    mapped_weight = map_weights(tmp_path / "model.safetensors")
    mapped_weight.fill_(9)
    model = nn.Linear(1, 1)
    model.is_quantized = is_quantized
    release_unused(model)
    assert int(mapped_weight[SIZE // 2]) == expected
