"""A SQLite file that one thread owns: other threads send it functions. Entry point: Database.

Knows transactions, locks and corrupt files. Does not know the tables. Only the user who runs the server may
read the file. A corrupt file is moved aside.
"""

import contextlib
import itertools
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from filelock import FileLock, Timeout

from inference.errors import ServerError

BUSY_TIMEOUT_S = 2.0  # another process may lock the file for this long
RUN_TIMEOUT_S = 10.0
PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = NORMAL",  # a killed process loses nothing; a power cut may lose the last transactions
    "foreign_keys = ON",
    "secure_delete = ON",  # deleted text is overwritten
    f"journal_size_limit = {16 << 20}",
)
CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
SUFFIXES = ("", "-wal", "-shm")  # of the files of one database

log = logging.getLogger(__name__)

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Query = Callable[Concatenate[sqlite3.Connection, Parameters], Result]


class StoreFailed(ServerError):
    """The database did not do what it was asked to: the disk is full, for example."""

    status: ClassVar[int] = 503

    def __init__(self, title: str, reason: str) -> None:
        super().__init__(f"{title} failed: {reason}")


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of a file.

    title     what the database is, for messages
    version   PRAGMA user_version of a file with `tables`
    upgrades  by version: the statements that make of it the next one
    """

    title: str
    version: int
    tables: str
    upgrades: Mapping[int, str] = field(default_factory=dict)


class Database:
    """The database at `path`, which is created if it is missing. Raises sqlite3.Error and OSError.

    is_exclusive  no other process has opened the file as a Database
    """

    def __init__(self, path: Path, schema: Schema) -> None:
        self.path = path
        self._schema = schema
        self._lock = FileLock(path.with_name(f"{path.name}.lock"), thread_local=False)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=path.stem)
        try:
            self._connection = self._thread.submit(open_connection, path, schema).result()
        except BaseException:
            self._thread.shutdown()
            raise
        with contextlib.suppress(Timeout):
            self._lock.acquire(timeout=0)
        self.is_exclusive = self._lock.is_locked

    def submit(self, query: Query[Parameters, Result], *args: Any) -> Future[Result]:
        """Call `query` with the connection and `args` on the database's thread, in one transaction.

        The future raises StoreFailed, or what `query` raises.
        """
        try:
            return self._thread.submit(self._run, query, args)
        except RuntimeError:
            failure: Future[Result] = Future()
            failure.set_exception(StoreFailed(self._schema.title, "the server is shutting down"))
            return failure

    def run(self, query: Query[Parameters, Result], *args: Any) -> Result:
        """As `submit`, and wait for the result. Raises StoreFailed, also if there is none in time."""
        return self.wait_for(self.submit(query, *args))

    def wait_for(self, future: Future[Result]) -> Result:
        """The result of a submitted query. Raises StoreFailed, also if there is none in time."""
        try:
            return future.result(RUN_TIMEOUT_S)
        except TimeoutError:
            future.cancel()
            raise StoreFailed(self._schema.title, f"it did not answer within {RUN_TIMEOUT_S:g} s") from None

    def close(self) -> None:
        """Finish what was submitted, and close the file."""
        with contextlib.suppress(RuntimeError):
            self._thread.submit(lambda: self._connection.close())  # the one that is then open
        self._thread.shutdown()
        self._lock.release()

    def _run(self, query: Callable[..., Result], args: tuple[Any, ...]) -> Result:
        try:
            with transaction(self._connection):
                return query(self._connection, *args)
        except (sqlite3.Error, OSError) as error:
            log.warning("%s: %s", self.path, error)
            if isinstance(error, sqlite3.Error) and is_corrupt(error):
                self._replace_file(str(error))
            raise StoreFailed(self._schema.title, str(error)) from error

    def _replace_file(self, reason: str) -> None:
        self._connection.close()
        move_aside(self.path, reason)
        self._connection = open_connection(self.path, self._schema)


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def open_connection(path: Path, schema: Schema) -> sqlite3.Connection:
    """Open the file, or create it. A corrupt file, or one of another version, is moved aside.

    Raises sqlite3.Error and OSError.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        return _open(path, schema)
    except sqlite3.DatabaseError as error:
        if not is_corrupt(error):
            raise
        move_aside(path, str(error))
        return _open(path, schema)


def is_corrupt(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in CORRUPT


def move_aside(path: Path, reason: str) -> None:
    """Rename the database's files: a new file takes their place."""
    names = (path.with_name(f"{path.name}.unreadable-{number}") for number in itertools.count(1))
    target = next(name for name in names if not name.exists())
    for suffix in SUFFIXES:
        file = path.with_name(path.name + suffix)
        if file.exists():
            file.rename(target.with_name(target.name + suffix))
    log.warning("%s cannot be read (%s): it is now %s, and a new file is begun", path, reason, target.name)


def _open(path: Path, schema: Schema) -> sqlite3.Connection:
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    path.chmod(0o600)  # SQLite gives its other files the mode of this one
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        _create_tables(connection, schema)
    except BaseException:
        connection.close()
        raise
    return connection


def _create_tables(connection: sqlite3.Connection, schema: Schema) -> None:
    """Raises DatabaseError with the code of a corrupt file for a file of another version."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    while version in schema.upgrades:
        version = _create(connection, schema.upgrades[version], version + 1)
    if version not in (0, schema.version):
        reason = f"it has version {version}, and this server reads version {schema.version}"
        error = sqlite3.DatabaseError(reason)
        error.sqlite_errorcode = sqlite3.SQLITE_NOTADB
        raise error
    if version == 0:
        _create(connection, schema.tables, schema.version)
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()


def _create(connection: sqlite3.Connection, tables: str, version: int) -> int:
    """Create the tables, all or none of them; the file then has this version, which is returned."""
    connection.executescript(f"BEGIN IMMEDIATE;{tables}PRAGMA user_version = {version};COMMIT;")
    return version
