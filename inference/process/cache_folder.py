"""The folder of what a later start need not compute again. Without it everything works, only slower."""

import os
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """The user's cache folder of this project. Raises RuntimeError if the user has no home folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hearth"


def replace_file(path: Path, content: bytes) -> None:
    """Write the file so that other processes see its former content or all of the new one. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as unfinished:
        try:
            unfinished.write(content)
            unfinished.flush()
            os.replace(unfinished.name, path)
        except OSError:
            os.unlink(unfinished.name)
            raise


def keep_newest(folder: Path, count: int) -> None:
    """Delete all files of the folder but the `count` that were changed last. Raises OSError."""
    files = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in files[count:]:
        path.unlink(missing_ok=True)
