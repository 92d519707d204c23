"""The content of a file as the body of a response: sent piece by piece, never held in memory as a whole."""

import os
from collections.abc import Iterator
from pathlib import Path

CHUNK_BYTES = 1 << 20


class FileBody:
    """A file that is open until `close`. As a WSGI body it yields its chunks. size: in bytes."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self.size = os.fstat(self._file.fileno()).st_size

    def read_chunk(self) -> bytes:
        """The next bytes; empty at the end."""
        return self._file.read(CHUNK_BYTES)

    def __iter__(self) -> Iterator[bytes]:
        while chunk := self.read_chunk():
            yield chunk

    def close(self) -> None:
        self._file.close()
