"""The store of responses, chat completions and conversations. Entry point: open_store.

One thread owns the database; other threads send it functions. Knows transactions and failures, not the rows.
"""

import contextlib
import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from filelock import FileLock, Timeout

from api.store.database import is_corrupt, move_aside, open_database
from api.store.retention import delete_expired, shrink
from inference.errors import ServerError

BUSY_TIMEOUT_S = 2.0  # another process may lock the file for this long
RUN_TIMEOUT_S = 10.0
SWEEP_EVERY_S = 600.0
OFF = "off"  # value of RESPONSES_STORE
FILE_NAME = "responses.db"
INTERRUPTED = {"code": "server_error", "message": "the server stopped before the response was complete"}

log = logging.getLogger(__name__)

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Query = Callable[Concatenate[sqlite3.Connection, Parameters], Result]


class StoreFailed(ServerError):
    """The database did not do what it was asked to: the disk is full, for example."""

    status: ClassVar[int] = 503

    def __init__(self, reason: str) -> None:
        super().__init__(f"the store of responses failed: {reason}")


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
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "hearth" / FILE_NAME


class Store:
    """max_bytes      size of the database from which on the oldest objects are deleted
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
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._lock = FileLock(path.with_name(f"{path.name}.lock"))
        try:
            self._connection = self._thread.submit(self._open).result()
        except BaseException:
            self._thread.shutdown()
            raise
        self._thread.submit(self._run, lambda connection: None, ())  # sweeps

    def submit(self, query: Query[Parameters, Result], *args: Any) -> Future[Result]:
        """Call `query` with the connection and `args` on the store's thread, in one transaction.

        The future raises StoreFailed, or what `query` raises.
        """
        try:
            return self._thread.submit(self._run, query, args)
        except RuntimeError:
            failure: Future[Result] = Future()
            failure.set_exception(StoreFailed("the server is shutting down"))
            return failure

    def run(self, query: Query[Parameters, Result], *args: Any) -> Result:
        """As `submit`, and wait for the result. Raises StoreFailed."""
        return wait_for(self.submit(query, *args), RUN_TIMEOUT_S)

    def close(self) -> None:
        """Finish what was submitted, and close the file."""
        with contextlib.suppress(RuntimeError):
            self._thread.submit(self._close)
        self._thread.shutdown()

    def _open(self) -> sqlite3.Connection:
        connection = open_database(self.path, BUSY_TIMEOUT_S)
        with contextlib.suppress(Timeout):  # another server uses the file: running responses may be its own
            self._lock.acquire(timeout=0)
            connection.execute(
                "UPDATE objects SET is_running = 0, value = json_set(value, '$.status', 'failed', '$.error',"
                " json(?)) WHERE is_running",
                (json.dumps(INTERRUPTED),),
            )
        return connection

    def _close(self) -> None:
        self._connection.close()
        self._lock.release()

    def _run(self, query: Callable[..., Result], args: tuple[Any, ...]) -> Result:
        try:
            self._sweep_if_due()
            with transaction(self._connection):
                result = query(self._connection, *args)
                if num_deleted := shrink(self._connection, self.max_bytes):
                    log.info("store: deleted=%d reason=RESPONSES_STORE_MB", num_deleted)
            return result
        except (sqlite3.Error, OSError) as error:
            log.warning("%s: %s", self.path, error)
            if isinstance(error, sqlite3.Error) and is_corrupt(error):
                self._replace_file(str(error))
            raise StoreFailed(str(error)) from error

    def _sweep_if_due(self) -> None:
        if time.monotonic() < self._next_sweep:
            return
        self._next_sweep = time.monotonic() + self.sweep_every_s
        with transaction(self._connection):
            num_deleted = delete_expired(self._connection, self.max_age_s)
        if num_deleted:
            log.info("store: deleted=%d reason=RESPONSES_STORE_DAYS", num_deleted)

    def _replace_file(self, reason: str) -> None:
        self._connection.close()
        move_aside(self.path, reason)
        self._connection = open_database(self.path, BUSY_TIMEOUT_S)


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


def wait_for(future: Future[Result], timeout_s: float) -> Result:
    """Raises StoreFailed if there is no result in time."""
    try:
        return future.result(timeout_s)
    except TimeoutError:
        future.cancel()
        raise StoreFailed(f"it did not answer within {timeout_s:g} s") from None
