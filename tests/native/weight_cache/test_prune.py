"""Files of the cache leave when no start would use them any more."""

import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from inference.native.weight_cache.file import write_weight_file
from inference.native.weight_cache.prune import DAY_S, TEMPORARY_DAYS, UNUSED_DAYS, mark_used, prune
from inference.native.weight_cache.source_files import (
    SUFFIX,
    cached_files,
    digest_source_files,
    read_source_files,
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"weights")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "weights").mkdir()
    return tmp_path / "weights"


def about(model: Path, dtype: str) -> dict[str, Any]:
    return {
        "source_files": [asdict(source) for source in read_source_files([model])],
        "variant": {"dtype": dtype},
    }


def write(folder: Path, name: str, model: Path, dtype: str) -> Path:
    path = folder / f"{name}{SUFFIX}"
    write_weight_file(path, about(model, dtype), {"norm": torch.ones(3)}, {})
    return path


def age(path: Path, days: float) -> None:
    changed = time.time() - days * DAY_S
    os.utime(path, (changed, changed))


def test_files_of_changed_and_deleted_models_leave(folder: Path, model: Path, tmp_path: Path) -> None:
    changed, deleted = tmp_path / "changed.gguf", tmp_path / "deleted.gguf"
    for other in (changed, deleted):
        other.write_bytes(b"weights")
        write(folder, other.stem, other, "bfloat16")
    changed.write_bytes(b"other weights")
    deleted.unlink()
    newest = write(folder, "newest", model, "bfloat16")
    prune(folder, newest, about(model, "bfloat16"))
    assert cached_files(folder) == [newest]


def test_other_variants_stay_and_other_versions_leave(folder: Path, model: Path) -> None:
    other_variant = write(folder, "other variant", model, "float32")
    write(folder, "other version", model, "bfloat16")
    newest = write(folder, "newest", model, "bfloat16")
    prune(folder, newest, about(model, "bfloat16"))
    assert cached_files(folder) == [newest, other_variant]


def test_unused_and_unreadable_files_leave(folder: Path, model: Path) -> None:
    unused, used = (write(folder, name, model, name) for name in ("float32", "int8"))
    for path in (unused, used):
        age(path, UNUSED_DAYS + 1)
    mark_used(used)
    (folder / f"foreign{SUFFIX}").write_bytes(b"text")
    write_weight_file(folder / f"old{SUFFIX}", {"files": []}, {}, {})
    newest = write(folder, "newest", model, "bfloat16")
    prune(folder, newest, about(model, "bfloat16"))
    assert cached_files(folder) == [used, newest]


def test_what_a_crashed_write_left_leaves_when_nothing_writes_it(folder: Path, model: Path) -> None:
    abandoned, running = folder / f".a{SUFFIX}.17", folder / f".b{SUFFIX}.18"
    for path in (abandoned, running):
        path.write_bytes(b"half of it")
    age(abandoned, 2 * TEMPORARY_DAYS)
    assert cached_files(folder) == []
    prune(folder, folder / f"newest{SUFFIX}", about(model, "bfloat16"))
    assert list(folder.iterdir()) == [running]


@pytest.mark.system("posix")
def test_the_name_of_a_model_depends_on_its_files_and_not_on_their_folder(
    model: Path, tmp_path: Path
) -> None:
    def name(path: Path) -> str:
        return digest_source_files(read_source_files([path]))

    first, link = name(model), tmp_path / "snapshot" / model.name
    link.parent.mkdir()
    link.symlink_to(model)
    assert name(link) == first
    os.utime(model, (1, 1))
    assert name(model) != first
