"""The fence: which folders and GGUF files a client may name as an adapter while the server runs.

A refusal has the same words whether something lies outside of the fence or not, and nothing outside is
touched unless a link inside of it leads there.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from inference.model.load.gguf.shards import GGUF

MAX_PATH_CHARS = 4096


class Fence:
    """The folders below which a client may name adapters.

    folders: the setting ADAPTER_DIRS, as the user wrote them.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = [Path(os.path.abspath(Path(folder).expanduser())) for folder in folders]

    def find(self, path: str) -> Path | None:
        """The folder or file that `path` means, with links resolved; None if none lies below the folders.

        A relative path is tried below each of them.
        """
        if not path or len(path) > MAX_PATH_CHARS or "\0" in path:
            return None
        found_folders = (find_below(folder, path) for folder in self._folders)
        return next((folder for folder in found_folders if folder), None)


def find_below(folder: Path, path: str) -> Path | None:
    """The existing folder or GGUF file that `path` means strictly below `folder`; None if there is none."""
    candidate = Path(os.path.normpath(folder / path))
    resolved_folder = Path(os.path.realpath(folder))
    if not (is_below(candidate, folder) or is_below(candidate, resolved_folder)):
        return None  # not looked up: nothing outside is touched
    try:
        resolved = candidate.resolve(strict=True)
        is_adapter = resolved.is_dir() or is_gguf_file(resolved)
        return resolved if is_below(resolved, resolved_folder) and is_adapter else None
    except (OSError, RuntimeError):  # absent, no permission, a loop of links
        return None


def is_gguf_file(path: Path) -> bool:
    """Whether an adapter in llama.cpp's form may be there."""
    return path.suffix == GGUF and path.is_file()


def is_below(path: Path, folder: Path) -> bool:
    return path != folder and path.is_relative_to(folder)
