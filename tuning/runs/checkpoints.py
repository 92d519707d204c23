"""The checkpoints of runs: their rows in the database, their folders, and the adapters that serve them.

May be called from any thread. Knows no trainer: the files are written by others.
"""

import logging
import os
import secrets
import shutil
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path

from inference.database import Database
from inference.errors import BadRequest, ServerError
from tuning.jobs.fine_tuned_models import FineTunedModels
from tuning.runs.paths import CheckpointPath, parse_path
from tuning.runs.store import RUN_CHECKPOINTS, RUN_INFOS, SAMPLERS, latest, require
from tuning.runs.types import CheckpointKind, RunCheckpoint, RunInfo

MIN_TTL_S, MAX_TTL_S = 3600, 10 * 365 * 24 * 3600  # the limits of Tinker's own service

log = logging.getLogger(__name__)


class Checkpoints:
    """The checkpoints of all runs, by their paths.

    folder: of the runs; models: what serves adapters by name.
    """

    def __init__(self, folder: Path, database: Database, models: FineTunedModels) -> None:
        self._folder, self._database, self._models = folder, database, models

    def get(self, path: str) -> RunCheckpoint:
        """Raises BadRequest for what is no path of a checkpoint, and NotFound."""
        checkpoint: RunCheckpoint = self._database.run(require, RUN_CHECKPOINTS, str(parse_path(path)))
        return checkpoint

    def exists(self, path: CheckpointPath) -> bool:
        return self._database.run(RUN_CHECKPOINTS.find, str(path)) is not None

    def folder_of(self, checkpoint: RunCheckpoint) -> Path:
        run: RunInfo = self._database.run(require, RUN_INFOS, checkpoint.run_id)
        return self._folder / run.folder / checkpoint.folder

    def new_folder(self, run: RunInfo, kind: CheckpointKind) -> Path:
        """A path for the files of a new checkpoint; no client chooses any of its names."""
        return self._folder / run.folder / f"{kind}-{secrets.token_hex(8)}"

    def add(
        self,
        run: RunInfo,
        path: CheckpointPath,
        folder: Path,
        ttl_s: int | None,
        user_metadata: Mapping[str, str],
    ) -> RunCheckpoint:
        """Record the checkpoint in `folder`; it replaces one of the same path."""
        now = int(time.time())
        checkpoint = RunCheckpoint(
            id=str(path),
            run_id=run.id,
            kind=path.kind,
            name=path.name,
            created=now,
            num_bytes=sum(file.stat().st_size for file in folder.iterdir()),
            folder=folder.name,
            options=run.options,
            user_metadata=user_metadata,
            expires=None if ttl_s is None else now + ttl_s,
        )
        former = self._database.run(replace_checkpoint, checkpoint)
        if former is not None:
            shutil.rmtree(folder.with_name(former.folder), ignore_errors=True)
        return checkpoint

    def delete(self, path: str) -> None:
        """Raises as `get`."""
        checkpoint = self.get(path)
        folder = self.folder_of(checkpoint)
        self._database.run(RUN_CHECKPOINTS.delete, checkpoint.id)
        self.unload(checkpoint.id)
        shutil.rmtree(folder, ignore_errors=True)

    def delete_expired(self) -> None:
        now = time.time()
        for checkpoint in self._database.run(latest, RUN_CHECKPOINTS):
            if checkpoint.expires is not None and checkpoint.expires <= now:
                self.delete(checkpoint.id)
                log.info("checkpoint=%s status=expired", checkpoint.id)

    def load(self, name: str, folder: Path, *, is_listed: bool = True) -> None:
        """Serve the adapter in `folder` under this name; perhaps in no list of models. Raises ServerError."""
        if not self._models.serves_adapters:
            raise BadRequest("", "the served model takes no adapters: checkpoints cannot be sampled")
        self._models.load(name, folder, is_listed=is_listed)

    def ensure_loaded(self, checkpoint: RunCheckpoint) -> None:
        """Serve the checkpoint under its path, unless it is served already. Raises ServerError."""
        if not self._models.has(checkpoint.id):
            self.load(checkpoint.id, self.folder_of(checkpoint))

    def unload(self, name: str) -> None:
        self._models.unload(name)

    def load_all(self) -> None:
        """Serve what was saved for sampling before a restart. One that cannot be served is logged."""
        checkpoints = self._database.run(latest, RUN_CHECKPOINTS)[::-1]
        sampled = [each for each in checkpoints if each.kind == "sampler_weights"]
        for each in sampled:
            self._try_to_load(each.id, self.folder_of(each))
        samplers = [each for each in self._database.run(latest, SAMPLERS) if each.snapshot]
        for sampler in samplers:
            self._try_to_load(sampler.adapter, self._folder / sampler.snapshot, is_listed=False)

    def _try_to_load(self, name: str, folder: Path, *, is_listed: bool = True) -> None:
        try:
            self._models.load(name, folder, is_listed=is_listed)
        except (ServerError, OSError) as error:
            log.warning("model=%s cannot be served: %s", name, error)


def check_ttl(ttl_s: int | None) -> None:
    """Raises BadRequest."""
    if ttl_s is not None and not MIN_TTL_S <= ttl_s <= MAX_TTL_S:
        raise BadRequest("ttl_seconds", f"must be {MIN_TTL_S} to {MAX_TTL_S}, or null", ttl_s)


def replace_checkpoint(connection: sqlite3.Connection, checkpoint: RunCheckpoint) -> RunCheckpoint | None:
    """Insert the checkpoint in place of one with its path, which is returned."""
    former = RUN_CHECKPOINTS.find(connection, checkpoint.id)
    if former is not None:
        RUN_CHECKPOINTS.delete(connection, former.id)
    RUN_CHECKPOINTS.insert(connection, checkpoint, checkpoint.run_id)
    return former


def link_files(source: Path, folder: Path, *names: str) -> None:
    """Fill a folder with hard links to the files of these names in another one, where they exist."""
    for name in names:
        if (source / name).exists():
            os.link(source / name, folder / name)
