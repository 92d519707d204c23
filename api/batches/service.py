"""The batches as the dialects use them. Entry points: open_batches, Batches."""

import logging
import secrets
import shutil
import sqlite3
import time
from pathlib import Path

from api.batches.batch_run import INPUT_FILE
from api.batches.input_file import InputRules
from api.batches.metrics import BatchCollector
from api.batches.queue import BatchQueue
from api.batches.request_runner import RequestRunner
from api.batches.store import BATCHES, SCHEMA, find_batch, insert_batch, unfinished_batches
from api.batches.types import ENDPOINTS, ID_PREFIX, WINDOW_S, BatchJob, BatchOrder
from inference.database import Database
from inference.errors import BadRequest, NotFound
from inference.models import Models
from tuning.service import TuningService
from tuning.store.files import Files, check_expiry, link_or_copy
from tuning.store.table import ListPage

DATABASE_FILE, FOLDER = "batches.db", "batches"
PURPOSE = "batch"  # of an input file

log = logging.getLogger(__name__)


def open_batches(
    tuning: TuningService | None, models: Models, max_body_bytes: int, num_slots: int
) -> "Batches | None":
    """The batches over the files of the tuning service; None: there are none, or the database cannot be
    opened, which is logged.
    """
    if tuning is None:
        return None
    try:
        return Batches(tuning.folder, tuning.files, models, max_body_bytes, num_slots)
    except (OSError, sqlite3.Error) as error:
        log.warning("%s cannot be opened, so there are no batches: %s", tuning.folder / DATABASE_FILE, error)
        return None


class Batches:
    """The batches of a server. Every method may be called from any thread.

    folder          of the database, and of one folder for each unfinished batch
    max_body_bytes  of each request
    num_slots       requests that run at the same time

    Raises sqlite3.Error and OSError.
    """

    def __init__(
        self, folder: Path, files: Files, models: Models, max_body_bytes: int, num_slots: int
    ) -> None:
        self._database = Database(folder / DATABASE_FILE, SCHEMA)
        self._folder = folder / FOLDER
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._files = files

        def make_rules(endpoint: str) -> InputRules:
            return InputRules(endpoint, max_body_bytes, models.resolve)

        unfinished = self._database.run(unfinished_batches)
        self._remove_leftovers({batch.id for batch in unfinished})
        self._queue = BatchQueue(self._database, self._folder, files, make_rules, num_slots, unfinished)
        self.metrics = BatchCollector(lambda: self._database.run(BATCHES.all))

    def start(self, runner: RequestRunner) -> None:
        """Run requests from now on."""
        self._queue.start(runner)

    def stop(self) -> None:
        """End the running requests, and run no more; returns at once. They run again after the next start."""
        self._queue.stop()

    def close(self) -> None:
        """As `stop`, and wait for the end."""
        self._queue.close()
        self._database.close()

    def create(self, order: BatchOrder) -> BatchJob:
        """Raises BadRequest, BatchConflict and StoreFailed.

        The input file may be deleted from then on.
        """
        if order.endpoint not in ENDPOINTS:
            raise BadRequest("endpoint", f"must be one of {', '.join(ENDPOINTS)}", order.endpoint)
        check_expiry(order.output_expires_s, "output_expires_after.seconds")
        now = int(time.time())
        id = f"{ID_PREFIX}{secrets.token_hex(12)}"
        batch = BatchJob(id=id, order=order, created=now, expires=now + WINDOW_S, times={"validating": now})
        folder = self._folder / id
        folder.mkdir(mode=0o700)
        try:
            self._link_input(order.input_file_id, folder / INPUT_FILE)
            stored = self._database.run(insert_batch, batch)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        if stored.id != id:
            shutil.rmtree(folder, ignore_errors=True)
            return stored
        log.info("batch=%s status=%s endpoint=%s", id, batch.status, order.endpoint)
        self._queue.add(batch)
        return batch

    def get(self, id: str) -> BatchJob:
        """Raises UnknownBatch."""
        return self._database.run(find_batch, id)

    def list(self, *, limit: int, after: str | None = None) -> ListPage[BatchJob]:
        """Newest first. Raises BadRequest if there is no batch `after`."""
        return self._database.run(lambda connection: BATCHES.page(connection, limit=limit, after=after))

    def cancel(self, id: str) -> BatchJob:
        """End the running requests. What was answered stays. Raises UnknownBatch, BatchConflict."""
        self.get(id)
        return self._queue.cancel(id)

    def _link_input(self, file_id: str, target: Path) -> None:
        """Raises BadRequest."""
        try:
            file = self._files.get(file_id)
            if file.purpose != PURPOSE:
                raise BadRequest("input_file_id", f"must be a file with the purpose {PURPOSE}", file.purpose)
            link_or_copy(self._files.content(file_id), target)
        except (NotFound, FileNotFoundError):
            raise BadRequest("input_file_id", "must be the id of a file", file_id) from None

    def _remove_leftovers(self, unfinished_ids: set[str]) -> None:
        """Delete the folders of batches that a killed server did not create, or had finished."""
        for folder in self._folder.iterdir():
            if folder.name not in unfinished_ids:
                shutil.rmtree(folder, ignore_errors=True)
