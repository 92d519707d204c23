"""The fine-tuned models by the names of jobs and checkpoints: folders of adapters, or of whole models.

A job that has ended has its result in a folder of its own; the checkpoints stay in the job's folder. Adapters
are loaded into the served model; whole models get a host.
"""

import logging
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from inference.backend import Adapters
from inference.errors import NotFound, ServerError
from inference.lora.file_names import ADAPTER_CONFIG
from tuning.jobs.model_host import ModelHost
from tuning.model_folder import write_model_card
from tuning.types import Checkpoint, Job

PATH_STARTS = ("/", ".", "~")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """parent: the public name of the model that it was trained from."""

    name: str
    folder: Path
    parent: str

    @property
    def is_full(self) -> bool:
        """Whether it is a whole model, not an adapter."""
        return not (self.folder / ADAPTER_CONFIG).exists()


class FineTunedModels:
    """folder: of the results; base_names: of the served model, as in TrainingBase.

    adapters, host  None: the server can serve none of the kind
    """

    def __init__(
        self,
        folder: Path,
        base_names: Sequence[str],
        adapters: Adapters | None,
        host: ModelHost | None = None,
    ) -> None:
        self.folder = folder
        self._base_names = base_names
        self._adapters = adapters
        self._host = host
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def serves_adapters(self) -> bool:
        return self._adapters is not None

    @property
    def serves_full_models(self) -> bool:
        return self._host is not None

    def has(self, model: str) -> bool:
        """Whether requests may name this adapter."""
        return self._adapters is not None and any(card.name == model for card in self._adapters.cards())

    def folder_of(self, model: str) -> Path:
        return self.folder / model.replace(":", "_")

    def parent_of(self, job: Job) -> str:
        """The public name of the model that a job trains: not the path by which it may be ordered."""
        model = job.request.model
        is_base = not model or model in self._base_names or model.startswith(PATH_STARTS)
        return self._base_names[0] if is_base else model

    def publish(self, result: TrainedModel) -> None:
        """Serve the result of a job, from a folder of its own. Raises ServerError if it cannot be served."""
        target = self.folder_of(result.name)
        partial = target.with_name(f".{target.name}")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(result.folder, partial, copy_function=os.link)
        if result.is_full:
            write_model_card(partial, result.name, result.parent)
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
        self.serve(TrainedModel(result.name, target, result.parent))

    def serve(self, model: TrainedModel) -> None:
        """Raises ServerError."""
        if not model.is_full:
            self.load(model.name, model.folder)
        elif self._host is not None:
            self._host.add(model.name, model.folder, model.parent)

    def serve_all(self, models: Iterable[TrainedModel]) -> None:
        """Serve what was trained before a restart. What cannot be served is logged."""
        for model in models:
            try:
                self.serve(model)
            except (ServerError, OSError) as error:
                log.warning("model=%s cannot be served: %s", model.name, error)

    def load(self, name: str, adapter: Path, *, is_listed: bool = True) -> None:
        """Raises ServerError. An adapter that is not listed has no source, and is in no list of models."""
        if self._adapters is not None:
            self._adapters.load(name, adapter, name if is_listed else "", replace=True)

    def unload(self, name: str) -> None:
        """Serve it no more; running answers end first."""
        for owner in (self._adapters and self._adapters.unload, self._host and self._host.remove):
            try:
                if owner:
                    owner(name)
            except NotFound:
                log.debug("model=%s was not served there", name)


def trained_models(
    jobs: Iterable[Job], checkpoints: Iterable[Checkpoint], results: FineTunedModels
) -> dict[str, TrainedModel]:
    """Everything that jobs have trained and nobody has deleted, by name."""
    parents = {job.id: results.parent_of(job) for job in jobs}
    models = [
        TrainedModel(job.fine_tuned_model, results.folder_of(job.model), parents[job.id])
        for job in jobs
        if job.fine_tuned_model
    ]
    models += [TrainedModel(each.model, Path(each.folder), parents[each.job_id]) for each in checkpoints]
    return {model.name: model for model in models if model.folder.is_dir()}
