"""Datasets under names that clients give them: rows of JSON, which can grow.

The rows are JSON lines in a file whose name this module makes. The database has how many of its bytes count:
what a killed server has written behind them does not exist.
"""

import dataclasses
import json
import os
import re
import secrets
import shutil
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from inference.database import Database
from inference.errors import BadRequest, NotFound, short
from tuning.data.hub_rows import FetchDataset
from tuning.store.dataset_source import read_source
from tuning.store.files import Files
from tuning.store.schema import DATASETS, RegisteredDataset

ID = re.compile(r"[A-Za-z0-9][\w./:@-]{0,199}", re.ASCII)
ID_RULE = "must be 1 to 200 letters, digits and ._/:@-, the first a letter or digit"


class UnknownDataset(NotFound):
    def __init__(self, id: str) -> None:
        self.id = id
        super().__init__(f"Dataset {short(id)} not found")


class Datasets:
    """The registered datasets.

    fetch: fetches a dataset of the Hub; None: none can be named.
    """

    def __init__(
        self, database: Database, folder: Path, files: Files, fetch: FetchDataset | None = None
    ) -> None:
        self._database = database
        self._folder = folder
        self._files = files
        self._fetch = fetch
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def register(
        self, id: str, purpose: str, source: Mapping[str, Any], metadata: Mapping[str, Any] | None = None
    ) -> RegisteredDataset:
        """Store the rows of a source, see dataset_source.py. id: empty: a new one.

        Raises BadRequest if the id is malformed or exists, or the source has no rows that can be read.
        """
        id = id or f"dataset-{secrets.token_hex(8)}"
        if not ID.fullmatch(id) or ".." in id:
            raise BadRequest("dataset_id", ID_RULE, id)
        self._database.run(refuse_existing_dataset, id)
        content = secrets.token_hex(12)
        try:
            rows = read_source(source, self._files, self._fetch)
            num_rows, num_bytes = write_rows(self._folder / content, 0, rows)
            if not num_rows:
                raise BadRequest("source", "has no rows")
        except BaseException:
            (self._folder / content).unlink(missing_ok=True)
            raise
        dataset = RegisteredDataset(
            id=id,
            purpose=purpose,
            source={key: value for key, value in source.items() if key != "rows"},
            metadata=metadata or {},
            created=int(time.time()),
            content=content,
            num_rows=num_rows,
            num_bytes=num_bytes,
        )
        self._database.run(insert_new, dataset)
        return dataset

    def get(self, id: str) -> RegisteredDataset:
        """Raises UnknownDataset."""
        return self._database.run(find_dataset, id)

    def list(self) -> Sequence[RegisteredDataset]:
        return self._database.run(DATASETS.all)

    def unregister(self, id: str) -> None:
        """Raises UnknownDataset. Jobs have a copy of the rows."""
        dataset = self.get(id)
        self._database.run(DATASETS.delete, id)
        (self._folder / dataset.content).unlink(missing_ok=True)

    def rows(self, id: str, start: int, limit: int) -> Sequence[dict[str, Any]]:
        """Up to `limit` rows from the index `start` on; -1: all. Raises UnknownDataset."""
        dataset = self.get(id)
        stop = dataset.num_rows if limit < 0 else min(dataset.num_rows, start + limit)
        with (self._folder / dataset.content).open("rb") as file:
            return [json.loads(line) for line in islice(file, min(start, stop), stop)]

    def append_rows(self, id: str, rows: Iterable[Any]) -> RegisteredDataset:
        """Raises UnknownDataset, and BadRequest for a row that is no object."""
        return self._database.run(self._append, id, rows)

    def _append(self, connection: sqlite3.Connection, id: str, rows: Iterable[Any]) -> RegisteredDataset:
        dataset = find_dataset(connection, id)
        num_rows, num_bytes = write_rows(self._folder / dataset.content, dataset.num_bytes, rows)
        longer = dataclasses.replace(
            dataset, num_rows=dataset.num_rows + num_rows, num_bytes=dataset.num_bytes + num_bytes
        )
        DATASETS.update(connection, longer)
        return longer

    def copy_rows(self, id: str, target: Path) -> None:
        """Write the rows that the dataset has now to the file `target`. Raises UnknownDataset."""
        dataset = self.get(id)
        with (self._folder / dataset.content).open("rb") as file, target.open("wb") as copy:
            shutil.copyfileobj(Prefix(file, dataset.num_bytes), copy)

    def remove_leftovers(self) -> None:
        """Delete contents without a row: of datasets that a killed server left unfinished."""
        known = {dataset.content for dataset in self.list()}
        for path in self._folder.iterdir():
            if path.name not in known:
                path.unlink()


class Prefix:
    """The first `num_bytes` bytes of a file, as shutil.copyfileobj reads them."""

    def __init__(self, file: BinaryIO, num_bytes: int) -> None:
        self._file = file
        self._num_bytes = num_bytes

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(self._num_bytes if size < 0 else min(size, self._num_bytes))
        self._num_bytes -= len(data)
        return data


def find_dataset(connection: sqlite3.Connection, id: str) -> RegisteredDataset:
    dataset = DATASETS.find(connection, id)
    if dataset is None:
        raise UnknownDataset(id)
    return dataset


def refuse_existing_dataset(connection: sqlite3.Connection, id: str) -> None:
    if DATASETS.find(connection, id):
        raise BadRequest("dataset_id", f"{short(id)} already exists: unregister it first, or use another id")


def insert_new(connection: sqlite3.Connection, dataset: RegisteredDataset) -> None:
    refuse_existing_dataset(connection, dataset.id)
    DATASETS.insert(connection, dataset)


def write_rows(path: Path, start: int, rows: Iterable[Any]) -> tuple[int, int]:
    """Write rows behind the first `start` bytes of a file. Returns their number and their bytes.

    Raises BadRequest for a row that is no object.
    """
    num_rows = 0
    with path.open("r+b" if start else "wb") as file:
        file.truncate(start)
        file.seek(start)
        for row in rows:
            if not isinstance(row, dict):
                raise BadRequest(f"rows[{num_rows}]", "must be a JSON object", row)
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
            num_rows += 1
        file.flush()
        os.fsync(file.fileno())
        return num_rows, file.tell() - start
