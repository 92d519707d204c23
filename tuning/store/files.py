"""Files of clients: rows in the database, contents as files whose names this module makes.

A file is complete on the disk before its row exists, and its row is gone before its content is deleted.
"""

import contextlib
import os
import re
import secrets
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from inference.database import Database
from inference.errors import BadRequest, NotFound, TooLarge, short
from tuning.jsonl import count_rows
from tuning.store.schema import FILES, File
from tuning.store.table import ListPage, Sort

PURPOSES = ("fine-tune", "assistants", "batch", "user_data", "evals", "vision")
TRAINING, RESULTS = "fine-tune", "fine-tune-results"
ID_PREFIX = "file-"
MIN_EXPIRY_S, MAX_EXPIRY_S = 3600, 2_592_000
MAX_NAME_CHARS = 255
UNFINISHED = ".upload-"  # prefix of contents without a row
SWEEP_EVERY_S = 60.0

InUse = Callable[[sqlite3.Connection, str], str]  # id of a file -> id of the job that needs it, or ""


class UnknownFile(NotFound):
    def __init__(self, id: str) -> None:
        super().__init__(f"No such File object: {short(id)[1:-1]}")


class Upload:
    """A file that is being received. Deleted when it is closed, unless it was kept."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        handle, path = tempfile.mkstemp(prefix=UNFINISHED, dir=folder)
        self.path = Path(path)
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self._file = os.fdopen(handle, "wb")

    def write(self, data: bytes) -> int:
        """Raises TooLarge."""
        self.num_bytes += len(data)
        if self.num_bytes > self.max_bytes:
            megabytes = self.max_bytes / 1e6
            raise TooLarge(f"file exceeds {megabytes:g} MB: send a smaller one, or raise MAX_FILE_MB")
        return self._file.write(data)

    def keep(self, path: Path) -> None:
        """Move the content to `path`, where it outlives a crash of the system."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()  # Windows renames no open file
        self.path.replace(path)

    def flush(self) -> None:
        self._file.flush()

    def seek(self, offset: int) -> int:
        return self._file.seek(offset)

    def close(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)


class Files:
    """The files that clients have uploaded, and those that jobs have written for them.

    max_bytes: of one file; in_use: which unfinished job needs a file.
    """

    def __init__(self, database: Database, folder: Path, max_bytes: int, in_use: InUse) -> None:
        self.max_bytes = max_bytes
        self._database = database
        self._folder = folder
        self._in_use = in_use
        self._next_sweep = 0.0
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def open_upload(self) -> Upload:
        """A file to write a content into, for `add`. Close it in any case."""
        return Upload(self._folder, self.max_bytes)

    def create(
        self, stream: BinaryIO, filename: str, purpose: str, expires_after_s: int | None = None
    ) -> File:
        """Store the bytes of a stream. Raises as `add`, and TooLarge."""
        with contextlib.closing(self.open_upload()) as upload:
            shutil.copyfileobj(stream, upload, 1 << 20)
            return self.add(upload, filename, purpose, expires_after_s)

    def add(self, upload: Upload, filename: str, purpose: str, expires_after_s: int | None = None) -> File:
        """Store what was uploaded. Raises BadRequest, which names the first line that is no JSON object."""
        check_upload(purpose, expires_after_s)
        upload.flush()
        if not upload.num_bytes:
            raise BadRequest("file", "is empty")
        if purpose == TRAINING:
            count_rows(upload.path, "file")
        return self._store(upload, filename, purpose, expires_after_s)

    def adopt(self, path: Path, id: str, filename: str, purpose: str, expires_after_s: int | None) -> None:
        """Store what the server has written at `path`, under an id of the caller's.

        `path` may then be deleted. A repetition, after a kill in between, changes nothing.
        """
        if self._database.run(FILES.find, id):
            return
        link_or_copy(path, self._folder / id)
        file = make_file(id, filename, purpose, path.stat().st_size, expires_after_s)
        self._database.run(FILES.insert, file)

    def add_results(self, content: bytes, filename: str) -> File:
        """Store the metrics of a job."""
        with contextlib.closing(Upload(self._folder, len(content))) as upload:
            upload.write(content)
            return self._store(upload, filename, RESULTS, None)

    def _store(self, upload: Upload, filename: str, purpose: str, expires_after_s: int | None) -> File:
        id = f"{ID_PREFIX}{secrets.token_hex(12)}"
        file = make_file(id, safe_name(filename), purpose, upload.num_bytes, expires_after_s)
        upload.keep(self._folder / file.id)
        self._database.run(FILES.insert, file)
        return file

    def get(self, id: str) -> File:
        """Raises UnknownFile."""
        self._delete_expired()
        return self._database.run(find_file, id)

    def list(
        self, purpose: str | None = None, *, limit: int, after: str | None = None, sort: Sort = "desc"
    ) -> ListPage[File]:
        """Raises BadRequest if there is no file `after`."""
        self._delete_expired()

        def accept(file: File) -> bool:
            return purpose in (None, file.purpose) and not is_expired(file)

        return self._database.run(
            lambda connection: FILES.page(connection, limit=limit, after=after, sort=sort, accept=accept)
        )

    def content(self, id: str) -> Path:
        """The path of a file's bytes. Raises UnknownFile."""
        return self._folder / self.get(id).id

    def delete(self, id: str) -> None:
        """Raises UnknownFile, and BadRequest if a job still needs the file."""
        self.get(id)
        self._delete(id)

    def _delete(self, id: str) -> None:
        self._database.run(self._delete_row, id)
        (self._folder / id).unlink(missing_ok=True)

    def _delete_row(self, connection: sqlite3.Connection, id: str) -> None:
        if job := self._in_use(connection, id):
            raise BadRequest("file_id", f"the fine-tuning job {job} still needs it: cancel the job first", id)
        FILES.delete(connection, id)

    def remove_leftovers(self) -> None:
        """Delete contents without a row: of uploads and deletions that a killed server left unfinished."""
        known = {file.id for file in self._database.run(FILES.all)}
        for path in self._folder.iterdir():
            if path.name not in known:
                path.unlink()

    def _delete_expired(self) -> None:
        """Expired files are deleted when files are asked for; one that a job needs stays until its end."""
        if time.monotonic() < self._next_sweep:
            return
        self._next_sweep = time.monotonic() + SWEEP_EVERY_S
        for file in self._database.run(FILES.all):
            if is_expired(file):
                with contextlib.suppress(BadRequest):
                    self._delete(file.id)


def make_file(id: str, filename: str, purpose: str, num_bytes: int, expires_after_s: int | None) -> File:
    """A file that is created now."""
    created = int(time.time())
    expires = None if expires_after_s is None else created + expires_after_s
    return File(
        id=id, filename=filename, purpose=purpose, num_bytes=num_bytes, created=created, expires=expires
    )


def link_or_copy(path: Path, target: Path) -> None:
    """Give a file a second name; where there are no links, copy it. Raises OSError."""
    target.unlink(missing_ok=True)
    try:
        os.link(path, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(path, target)


def find_file(connection: sqlite3.Connection, id: str) -> File:
    file = FILES.find(connection, id)
    if file is None or is_expired(file):
        raise UnknownFile(id)
    return file


def is_expired(file: File) -> bool:
    return file.expires is not None and file.expires <= time.time()


def check_upload(purpose: str, expires_after_s: int | None) -> None:
    """Raises BadRequest."""
    if purpose not in PURPOSES:
        raise BadRequest("purpose", f"must be one of {', '.join(PURPOSES)}", purpose)
    check_expiry(expires_after_s, "expires_after[seconds]")


def check_expiry(expires_after_s: int | None, field: str) -> None:
    """Raises BadRequest of the field."""
    if expires_after_s is not None and not MIN_EXPIRY_S <= expires_after_s <= MAX_EXPIRY_S:
        raise BadRequest(field, f"must be {MIN_EXPIRY_S} to {MAX_EXPIRY_S}", expires_after_s)


def safe_name(filename: str) -> str:
    """The file's name without folders and control characters: it is shown, and never part of a path."""
    name = re.split(r"[/\\]", filename)[-1]
    return "".join(c for c in name if c.isprintable()).strip(". ")[:MAX_NAME_CHARS] or "file"
