"""Makes files that clients can read of the results of a batch."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from api.batches.batch_run import BatchRun
from tuning.store.files import ID_PREFIX, Files

PURPOSE = "batch_output"


def store_results(files: Files, run: BatchRun) -> Mapping[str, str | None]:
    """The fields of the batch with the ids of its files; None for a file without lines.

    The ids follow from the batch's: a repetition stores no second file. Raises OSError and StoreFailed.
    """
    paths: dict[str, Path] = {
        "output_file_id": run.results.output_path,
        "error_file_id": run.results.error_path,
    }
    return {field: store_file(files, run, field, path) for field, path in paths.items()}


def store_file(files: Files, run: BatchRun, field: str, path: Path) -> str | None:
    if not path.stat().st_size:
        return None
    batch = run.batch
    id = ID_PREFIX + hashlib.sha256(f"{field} of {batch.id}".encode()).hexdigest()[:24]
    files.adopt(path, id, f"{batch.id}_{path.name}", PURPOSE, batch.order.output_expires_s)
    return id
