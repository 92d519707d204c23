"""Renames as on Windows, which neither renames a file that is open nor lets `rename` replace one."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest


def rename_as_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, replaces in (("rename", False), ("replace", True)):
        monkeypatch.setattr(os, name, checked(getattr(os, name), replaces))


def checked(rename: Callable[..., None], replaces: bool) -> Callable[..., None]:
    def wrapped(source: Any, target: Any, **options: Any) -> None:
        if str(source) in {each.path for each in psutil.Process().open_files()}:
            raise PermissionError(13, "the file is used by another process", str(source))
        if Path(target).exists() and not replaces:
            raise FileExistsError(17, "the file exists", str(target))
        rename(source, target, **options)

    return wrapped
