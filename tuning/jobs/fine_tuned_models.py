"""The fine-tuned models by the names of jobs and checkpoints: folders of adapters, or of whole models.

A job that has ended has its result in a folder of its own; the checkpoints stay in the job's folder. Adapters
are loaded into the served model; whole models get a host, which also serves the adapters over them.
"""

import logging
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from inference.backend import Adapters
from inference.errors import NotFound, ServerError
from inference.lora.file_names import ADAPTER_CONFIG
from tuning.jobs.model_host import ModelHost
from tuning.model_folder import write_model_card
from tuning.types import FINISHED, Checkpoint, Job

PATH_STARTS = ("/", ".", "~")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """The result of a job, or a checkpoint.

    parent      the public name of the model that it was trained from
    base_model  as in Job
    is_final    no later checkpoint takes its place
    """

    name: str
    folder: Path
    parent: str
    base_model: str = ""
    is_final: bool = True

    @property
    def is_full(self) -> bool:
        """Whether it is a whole model, not an adapter."""
        return not (self.folder / ADAPTER_CONFIG).exists()


class FineTunedModels:
    """Keeps the results of tuning, and has them served under their names.

    folder: of the results; base_names: of the served model, as in TrainingBase.

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

    def of_job(self, job: Job, name: str, folder: Path) -> TrainedModel:
        """The result or a checkpoint of a job."""
        is_final = name == job.model or job.status in FINISHED
        return TrainedModel(name, folder, self.parent_of(job), job.base_model, is_final)

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
        self.serve(replace(result, folder=target), is_tried=True)

    def serve(self, model: TrainedModel, *, is_tried: bool = False) -> None:
        """Let a trained model answer requests. Raises ServerError.

        is_tried: as in ModelHost.add_adapter; others are tried at once.
        """
        if not model.folder.is_dir():  # a later checkpoint has replaced this one
            raise NotFound("its folder is gone")
        if not model.is_full and not model.base_model:
            self.load(model.name, model.folder)
        elif self._host is None:
            log.debug("model=%s has no host", model.name)
        elif model.is_full:
            self._host.add(model.name, model.folder, model.parent)
        else:
            self._host.add_adapter(model.base_model, model.name, model.folder, is_tried=is_tried)

    def serve_all(self, models: Iterable[TrainedModel]) -> None:
        """Serve what was trained before a restart. What cannot be served is logged."""
        for model in sorted(models, key=lambda model: not model.is_full):  # before the adapters over them
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
    by_id = {job.id: job for job in jobs}
    models = [
        results.of_job(job, job.fine_tuned_model, results.folder_of(job.model))
        for job in by_id.values()
        if job.fine_tuned_model
    ]
    models += [results.of_job(by_id[each.job_id], each.model, Path(each.folder)) for each in checkpoints]
    return {model.name: model for model in models if model.folder.is_dir()}
