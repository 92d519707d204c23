"""Files that survive a crash: a folder appears whole, or not at all.

Knows the file system; not what is written.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

NEW, OLD = ".new", ".old"  # suffixes of a folder being written, and of the one that it replaces


def replace_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Write a folder beside `folder` with `fill`, flush it to the disk and put it in its place.

    A crash leaves the former folder under its own name or as `.old`: read it with `last_whole`. A failure
    leaves nothing else: on a full disk, what was written of the new one is in the way.
    """
    new, old = folder.with_name(folder.name + NEW), folder.with_name(folder.name + OLD)
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        fill(new)
        sync(new)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    new.rename(folder)
    sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def last_whole(folder: Path) -> Path | None:
    """The folder that replace_folder wrote last; None if there is none."""
    old = folder.with_name(folder.name + OLD)
    return next((each for each in (folder, old) if each.is_dir()), None)


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a safetensors file and flush it to the disk."""
    save_file(dict(tensors), path, metadata=dict(metadata or {"format": "pt"}))
    sync(path)


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=2, sort_keys=True), "utf-8")
    sync(path)


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk.

    Windows flushes only files that are open for writing, and opens no folders.
    """
    if os.name == "nt" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
