"""Remembers on disk which names the files of transformers' models export.

transformers reads all these files when it is imported, 0.35 s. What they export changes with an installation,
which pip records in a file beside the package; without that file they are read as ever.
"""

import contextlib
import marshal
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inference.process.cache_folder import cache_folder, read_with_digest, write_with_digest

FILE_NAME = "transformers_names"


def read_remembered(read_folder: Callable[[Any], Any], folder: Path) -> Any:
    """read_folder(folder), or its result for this installation at an earlier start."""
    installation = describe_installation(folder)
    if installation is None:
        return read_folder(folder)
    with contextlib.suppress(OSError, RuntimeError, EOFError, ValueError, TypeError):
        remembered_installation, names = marshal.loads(read_with_digest(cache_folder() / FILE_NAME))
        if remembered_installation == installation:
            return names
    names = read_folder(folder)
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        write_with_digest(cache_folder() / FILE_NAME, marshal.dumps((installation, names)))
    return names


def describe_installation(folder: Path) -> tuple[str | int, ...] | None:
    """What changes with an installation of the package of `folder`; None where pip has not recorded it.

    folder: the first level of folders in the package
    """
    package = folder.parent.resolve()
    records = list(package.parent.glob(f"{package.name}-*.dist-info/RECORD"))
    if len(records) != 1:
        return None
    status = os.stat(records[0])
    return (sys.version, str(records[0]), status.st_size, status.st_mtime_ns)
