"""The store of responses, conversations and chat completions. Entry point: open_store.

A Database that stays within limits of age and size. Does not know the rows.
"""

import json
import logging
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from api.store.retention import delete_expired, shrink
from api.store.schema import SCHEMA
from inference.database import Database, Parameters, Query, Result
from inference.process.cache_folder import cache_folder
from settings.groups import OFF

SWEEP_EVERY_S = 600.0
FILE_NAME = "responses.db"
INTERRUPTED = {"code": "server_error", "message": "the server stopped before the response was complete"}

log = logging.getLogger(__name__)


def open_store(path: str, max_mb: float, max_days: float) -> "Store | None":
    """The store at `path`; None if the setting is off, or if the file cannot be opened, which is logged."""
    if path == OFF:
        return None
    file = Path(path).expanduser() if path else default_path()
    try:
        store = Store(file, round(max_mb * 1e6), max_days * 86400)
    except (OSError, sqlite3.Error) as error:
        log.warning("RESPONSES_STORE=%s cannot be opened, so nothing is stored: %s", file, error)
        return None
    log.info("responses are stored in %s: at most %g MB, for %g days", file, max_mb, max_days)
    return store


def default_path() -> Path:
    return cache_folder() / FILE_NAME


class Store:
    """The stored objects of all owners, in one database.

    max_bytes      size of the database from which on the oldest objects are deleted
    max_age_s      objects that did not change for this long are deleted
    sweep_every_s  interval in which they are looked for, when the store is used
    """

    def __init__(
        self, path: Path, max_bytes: int, max_age_s: float, sweep_every_s: float = SWEEP_EVERY_S
    ) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self.max_age_s = max_age_s
        self.sweep_every_s = sweep_every_s
        self._next_sweep = 0.0
        self._database = Database(path, SCHEMA)
        if self._database.is_exclusive:  # else running responses may be another server's
            self._database.run(_fail_interrupted)
        self._sweep_if_due()

    def submit(self, query: Query[Parameters, Result], *args: Any) -> Future[Result]:
        """As Database.submit. The store stays within its limits."""
        self._sweep_if_due()
        return self._database.submit(self._run_and_shrink, query, args)

    def run(self, query: Query[Parameters, Result], *args: Any) -> Result:
        """As `submit`, and wait for the result. Raises StoreFailed."""
        return self._database.wait_for(self.submit(query, *args))

    def close(self) -> None:
        """Finish what was submitted, and close the file."""
        self._database.close()

    def _sweep_if_due(self) -> None:
        if time.monotonic() >= self._next_sweep:
            self._next_sweep = time.monotonic() + self.sweep_every_s
            self._database.submit(_sweep, self.max_age_s)

    def _run_and_shrink(
        self, connection: sqlite3.Connection, query: Callable[..., Result], args: tuple[Any, ...]
    ) -> Result:
        result = query(connection, *args)
        if num_deleted := shrink(connection, self.max_bytes):
            log.info("store: deleted=%d reason=RESPONSES_STORE_MB", num_deleted)
        return result


def _fail_interrupted(connection: sqlite3.Connection) -> None:
    connection.execute(
        "UPDATE objects SET is_running = 0, value = json_set(value, '$.status', 'failed', '$.error', json(?))"
        " WHERE is_running",
        (json.dumps(INTERRUPTED),),
    )


def _sweep(connection: sqlite3.Connection, max_age_s: float) -> None:
    if num_deleted := delete_expired(connection, max_age_s):
        log.info("store: deleted=%d reason=RESPONSES_STORE_DAYS", num_deleted)
