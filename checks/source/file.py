"""A file of a model, as the Hub or a folder tells of it."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

HASH = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")  # git's sha1, or sha256
SHA256 = 64  # letters


@dataclass(frozen=True, slots=True)
class File:
    """`here`: its bytes are on this machine already; `etag` names them in the cache, by a hash of theirs;
    `kept`: how many of them an earlier fetch has left, where it did not come to its end."""

    name: str
    size: int
    here: bool
    etag: str = ""
    kept: int = 0

    @property
    def left(self) -> int:
        """Bytes to fetch."""
        return 0 if self.here else self.size - self.kept

    @property
    def proved(self) -> bool:
        """Whether its bytes can be proved by a hash."""
        return bool(HASH.fullmatch(self.etag))

    @property
    def safe(self) -> bool:
        """Whether its bytes can be proved, and it has its place in its model's folder."""
        return self.proved and lies_within(self.name)

    def hashing(self) -> Any:
        """What its bytes are to be fed to; the hexdigest is then the etag."""
        return hashlib.sha256() if len(self.etag) == SHA256 else hashlib.sha1(b"blob %d\0" % self.size)


def lies_within(name: str) -> bool:
    """Whether a file of that name lies in its model's folder, as every file of a git repository does."""
    path = PurePosixPath(name)
    return bool(path.name) and not path.is_absolute() and ".." not in path.parts and "\0" not in name
