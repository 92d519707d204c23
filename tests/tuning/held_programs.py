"""Scripted programs that wait until a test releases them: no test has to be faster than what it follows."""

import time
from collections.abc import Callable
from pathlib import Path

RELEASE_FILE = "released"


def hold(folder: Path, is_over: Callable[[], bool] = lambda: False) -> None:
    """In a program at work in `folder`: wait until it is released."""
    while not is_over() and not (folder / RELEASE_FILE).exists():
        time.sleep(0.01)


def release(folder: Path) -> None:
    """Let the program in `folder` go on."""
    (folder / RELEASE_FILE).touch()
