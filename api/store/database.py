"""The store's SQLite file: its tables, and how it is opened.

The file has what clients sent and what the model answered, as plain text. Only the user who runs the server
may read it. A corrupt file is moved aside.
"""

import itertools
import logging
import os
import sqlite3
from pathlib import Path

PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = NORMAL",  # a killed process loses nothing; a power cut may lose the last answers
    "foreign_keys = ON",
    "secure_delete = ON",  # deleted text is overwritten
    f"journal_size_limit = {16 << 20}",
)
VERSION = 1  # PRAGMA user_version of a file with these tables
TABLES = """
CREATE TABLE objects (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    model TEXT,
    previous TEXT,
    conversation TEXT,
    conversation_end INTEGER NOT NULL,
    is_running INTEGER NOT NULL,
    changed REAL NOT NULL,
    value TEXT NOT NULL,
    UNIQUE (owner, kind, id)
);
CREATE INDEX objects_by_change ON objects (changed);
CREATE INDEX objects_in_order ON objects (owner, kind, number);
CREATE TABLE items (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    object INTEGER NOT NULL REFERENCES objects ON DELETE CASCADE,
    owner TEXT NOT NULL,
    origin TEXT NOT NULL,
    id TEXT NOT NULL,
    value TEXT NOT NULL
);
CREATE INDEX items_of_object ON items (object, number);
CREATE INDEX items_by_id ON items (owner, id);
"""
CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
SUFFIXES = ("", "-wal", "-shm")  # of the files of one database

log = logging.getLogger(__name__)


def open_database(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    """Open the file, or create it. A corrupt file, or one of another version, is moved aside.

    Raises sqlite3.Error and OSError.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        return _open(path, busy_timeout_s)
    except sqlite3.DatabaseError as error:
        if not is_corrupt(error):
            raise
        move_aside(path, str(error))
        return _open(path, busy_timeout_s)


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


def _open(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    path.chmod(0o600)  # SQLite gives its other files the mode of this one
    connection = sqlite3.connect(path, timeout=busy_timeout_s, isolation_level=None)
    try:
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        _create_tables(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _create_tables(connection: sqlite3.Connection) -> None:
    """Raises DatabaseError with the code of a corrupt file for a file of another version."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version not in (0, VERSION):
        error = sqlite3.DatabaseError(f"it has version {version}, and this server reads version {VERSION}")
        error.sqlite_errorcode = sqlite3.SQLITE_NOTADB
        raise error
    if version == 0:
        connection.executescript(f"BEGIN IMMEDIATE;{TABLES}PRAGMA user_version = {VERSION};COMMIT;")
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
