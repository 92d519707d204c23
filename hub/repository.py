"""A model's files on the Hub, in the cache or in a folder, and what is known before any weights are read."""

import hashlib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from hub.tensors import WeightHeaders
from hub.weight_files import WEIGHT_SUFFIXES
from inference.model.load.gguf.file.header import GgufHeader
from inference.model.load.gguf.file.shards import GGUF

HASH_PATTERN = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")  # git's sha1, or sha256
WINDOWS_SEPARATORS = "\\:"  # which names on the Hub may have
SHA256_LENGTH = 64  # hexadecimal digits


@dataclass(frozen=True, slots=True)
class RepoFile:
    """A file of a model.

    size             in bytes
    is_local         whether all its bytes are on this machine
    etag             hash of the content, which names the blob in the cache; empty if unknown
    resumable_bytes  bytes that an interrupted fetch left in the cache
    """

    name: str
    size: int
    is_local: bool
    etag: str = ""
    resumable_bytes: int = 0

    @property
    def bytes_to_fetch(self) -> int:
        """Bytes of the file that are not on this machine."""
        return 0 if self.is_local else self.size - self.resumable_bytes

    @property
    def has_hash(self) -> bool:
        """Whether the etag is a hash, so that the content can be verified."""
        return bool(HASH_PATTERN.fullmatch(self.etag))

    @property
    def is_safe(self) -> bool:
        """Whether the content can be verified, and the path is inside the model's folder."""
        return self.has_hash and is_inside_folder(self.name)

    def new_hash(self) -> Any:
        """A new hash object: its hexdigest over the whole content equals the etag."""
        return hashlib.sha256() if len(self.etag) == SHA256_LENGTH else hashlib.sha1(b"blob %d\0" % self.size)


@dataclass(frozen=True, slots=True)
class Repository:
    """A model and its files.

    revision         the requested branch, tag or commit; empty for a local folder
    commit           the version on the Hub that all fetches are pinned to; empty for a local folder
    folder           the folder of the files; None if some must be fetched from the Hub first
    files            the files that loading reads
    names            names of all files of the source
    config           the config.json; for a GGUF file the config derived from its header
    current_name     its name on the Hub if it was renamed; else empty
    licence          as the authors name it; empty if unknown
    num_elements     elements of all tensors of the GGUF file, as the Hub counts them; 0 if unknown
    metadata_folder  the folder with the small files that the checks read
    headers          the headers of the safetensors files; None if they were not read
    gguf_header      the header of the GGUF file, with the tensors of all shards; None if there is none
    """

    name: str
    revision: str
    commit: str
    folder: Path | None
    files: tuple[RepoFile, ...]
    names: tuple[str, ...]
    config: Mapping[str, Any]
    current_name: str = ""
    licence: str = ""
    num_elements: int = 0
    metadata_folder: Path | None = None
    headers: WeightHeaders | None = None
    gguf_header: GgufHeader | None = None

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights as they are stored."""
        return sum(file.size for file in self.weight_files)

    @property
    def weight_files(self) -> list[RepoFile]:
        """The files with weights."""
        return [file for file in self.files if file.name.endswith(WEIGHT_SUFFIXES)]

    @property
    def gguf_file(self) -> str:
        """The name of the model's (first) GGUF file; empty if it has other weights."""
        return next((file.name for file in self.files if file.name.endswith(GGUF)), "")

    @property
    def files_to_fetch(self) -> list[RepoFile]:
        """The files that are not local, one for each content."""
        return list({file.etag or file.name: file for file in self.files if not file.is_local}.values())

    @property
    def bytes_to_fetch(self) -> int:
        """Bytes of all files to fetch that are not on this machine."""
        return sum(file.bytes_to_fetch for file in self.files_to_fetch)


def is_inside_folder(name: str) -> bool:
    """Whether the path `name` stays inside the model's folder, as every path of a git repository does."""
    path = PurePosixPath(name)
    return (
        bool(path.name)
        and not path.is_absolute()
        and ".." not in path.parts
        and "\0" not in name
        and not (sys.platform == "win32" and any(char in name for char in WINDOWS_SEPARATORS))
    )
