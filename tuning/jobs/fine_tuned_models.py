"""The fine-tuned models: folders of adapters that the server loads, by the names of jobs and checkpoints.

A job that has ended has its result in a folder of its own; the checkpoints stay in the job's folder.
"""

import logging
import shutil
from collections.abc import Iterable
from pathlib import Path

from inference.backend import Adapters
from inference.errors import NotFound, ServerError
from tuning.types import Checkpoint, Job

log = logging.getLogger(__name__)


class FineTunedModels:
    """folder: of the results; adapters: None: the backend serves none."""

    def __init__(self, folder: Path, adapters: Adapters | None) -> None:
        self.folder = folder
        self._adapters = adapters
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def serves_adapters(self) -> bool:
        return self._adapters is not None

    def has(self, model: str) -> bool:
        """Whether requests may name it."""
        return self._adapters is not None and any(card.name == model for card in self._adapters.cards())

    def folder_of(self, model: str) -> Path:
        return self.folder / model.replace(":", "_")

    def publish(self, model: str, adapter: Path) -> None:
        """Copy the result of a job, and load it. Raises ServerError if it cannot be served."""
        target = self.folder_of(model)
        partial = target.with_name(f".{target.name}")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(adapter, partial)
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
        self.load(model, target)

    def load(self, model: str, adapter: Path, *, is_listed: bool = True) -> None:
        """Raises ServerError. An adapter that is not listed has no source, and is in no list of models."""
        if self._adapters is not None:
            self._adapters.load(model, adapter, model if is_listed else "", replace=True)

    def load_all(self, models: Iterable[tuple[str, Path]], *, is_listed: bool = True) -> None:
        """Load what was trained before a restart. One that cannot be served is logged."""
        for model, adapter in models:
            try:
                self.load(model, adapter, is_listed=is_listed)
            except (ServerError, OSError) as error:
                log.warning("model=%s cannot be served: %s", model, error)

    def unload(self, model: str) -> None:
        if self._adapters is not None:
            try:
                self._adapters.unload(model)
            except NotFound:
                log.debug("model=%s was not loaded", model)


def trained_models(
    jobs: Iterable[Job], checkpoints: Iterable[Checkpoint], results: FineTunedModels
) -> list[tuple[str, Path]]:
    """Name and folder of everything that jobs have trained and nobody has deleted."""
    models = [(job.fine_tuned_model, results.folder_of(job.model)) for job in jobs if job.fine_tuned_model]
    models += [(each.model, Path(each.folder)) for each in checkpoints]
    return [(model, folder) for model, folder in models if folder.is_dir()]
