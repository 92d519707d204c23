"""The fence: which folders and GGUF files a client may name as an adapter while the server runs.

A refusal has the same words whether something lies outside of the fence or not, and nothing outside is
touched unless a link inside of it leads there.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from inference.model.load.gguf.file.shards import GGUF

MAX_PATH_CHARS = 4096


class Fence:
    """The folders below which a client may name adapters.

    folders: the setting ADAPTER_DIRS, as the user wrote them.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = [Path(os.path.abspath(Path(folder).expanduser())) for folder in folders]

    def find(self, path: str) -> Path | None:
        """The folder or GGUF file that `path` means, with links resolved; None if there is none inside.

        A relative path is tried below each of the folders.
        """
        places = (resolve_below(folder, path) for folder in self._folders)
        return next(
            (place for place in places if place and (os.path.isdir(place) or is_gguf_file(place))), None
        )

    def encloses(self, path: str) -> bool:
        """Whether `path` means a place below one of the folders, whether or not something is there."""
        return any(resolve_below(folder, path) for folder in self._folders)


def resolve_below(folder: Path, path: str) -> Path | None:
    """The place strictly below `folder` that `path` means, with links resolved; None if it is elsewhere."""
    if not path or len(path) > MAX_PATH_CHARS or "\0" in path:
        return None
    candidate = Path(os.path.normpath(folder / path))
    resolved_folder = Path(os.path.realpath(folder))
    if not (is_below(candidate, folder) or is_below(candidate, resolved_folder)):
        return None  # not looked up: nothing outside is touched
    try:
        resolved = candidate.resolve()
        return resolved if is_below(resolved, resolved_folder) else None
    except (OSError, RuntimeError):  # no permission, a loop of links
        return None


def is_gguf_file(path: Path) -> bool:
    """Whether an adapter in llama.cpp's form may be there."""
    return path.suffix == GGUF and os.path.isfile(path)


def is_below(path: Path, folder: Path) -> bool:
    return path != folder and path.is_relative_to(folder)
