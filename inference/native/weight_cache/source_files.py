"""Where packed weights are kept, and the files that they were made from: whether these are still the same.

Imports no library: it also runs before they are imported.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path

from inference.process.cache_folder import cache_folder

OFF = "off"  # value of WEIGHT_CACHE_DIR
SUFFIX = ".packed"  # of the files in the cache
HEAD_BYTES = 1 << 20  # of a file, which are part of its identity: they have the names and shapes of tensors
DIGEST_LENGTH = 16


def weight_cache_folder(weight_cache_dir: str) -> Path | None:
    """The folder that WEIGHT_CACHE_DIR means; None: it is off, or the user has no home folder."""
    if weight_cache_dir == OFF:
        return None
    with contextlib.suppress(RuntimeError):
        return Path(weight_cache_dir).expanduser() if weight_cache_dir else cache_folder() / "weights"
    return None


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file at an absolute path, as it was when its weights were packed. head: SHA-256 of HEAD_BYTES."""

    path: str
    size: int
    mtime_ns: int
    head: str

    @property
    def is_unchanged(self) -> bool:
        """Whether the file still exists with this size and time."""
        try:
            status = os.stat(self.path)
        except OSError:
            return False
        return (status.st_size, status.st_mtime_ns) == (self.size, self.mtime_ns)


def read_source_files(paths: Iterable[Path]) -> tuple[SourceFile, ...]:
    """The current state of the files, by name. Raises OSError."""
    return tuple(map(read_source, sorted(paths)))


def read_source(path: Path) -> SourceFile:
    status = path.stat()
    with path.open("rb") as file:
        head = hashlib.sha256(file.read(HEAD_BYTES)).hexdigest()
    return SourceFile(str(path.absolute()), status.st_size, status.st_mtime_ns, head)


def digest_source_files(source_files: Iterable[SourceFile]) -> str:
    """The part of a cache file's name that depends on the model: equal for links to the same files."""
    return digest([[Path(each.path).name, *astuple(each)[1:]] for each in source_files])


def digest(facts: object) -> str:
    """A name for facts that JSON can express."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:DIGEST_LENGTH]


def cached_files(folder: Path, sources_digest: str = "") -> list[Path]:
    """The files of the cache, or those of one model."""
    return sorted(folder.glob(f"{sources_digest}*{SUFFIX}"))
