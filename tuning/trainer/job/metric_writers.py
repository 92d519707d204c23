"""Copies of a job's metrics for other programs: TensorBoard, trackio and Weights & Biases.

Each is an optional package, and is used where it is installed; Weights & Biases, which sends the metrics to
its servers, only with a key in the environment of the server. A failure of theirs never ends a job.
"""

import importlib
import importlib.util
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from inference.errors import named_error
from tuning.types import JobSpec

PROJECT = "hearth"
TENSORBOARD_FOLDER = "tensorboard"  # in that of the job
WANDB_KEY = "WANDB_API_KEY"

log = logging.getLogger(__name__)


class MetricWriter(Protocol):
    def write(self, step: int, figures: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class TensorBoardWriter:
    """Event files, which `tensorboard --logdir` shows."""

    def __init__(self, folder: Path, spec: JobSpec) -> None:
        tensorboard = importlib.import_module("torch.utils.tensorboard")
        self._writer = tensorboard.SummaryWriter(str(folder / TENSORBOARD_FOLDER))

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class RunWriter:
    """A run of a package with the functions init, log and finish. A job that goes on continues its run."""

    def __init__(self, package: str, spec: JobSpec) -> None:
        self._module = importlib.import_module(package)
        options: dict[str, Any] = {"project": PROJECT, "name": spec.job_id, "resume": "allow"}
        if package == "wandb":
            options["id"] = spec.job_id
        self._module.init(config=asdict(spec.hyperparameters), **options)

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        self._module.log(dict(figures), step=step)

    def close(self) -> None:
        self._module.finish()


class Destination(NamedTuple):
    """A program that gets a copy of the metrics.

    is_enabled: whether the package, where it is installed, shall be used.
    """

    is_enabled: Callable[[], bool]
    open: Callable[[Path, JobSpec], MetricWriter]


DESTINATIONS: Mapping[str, Destination] = {
    "tensorboard": Destination(lambda: True, TensorBoardWriter),
    "trackio": Destination(lambda: True, lambda folder, spec: RunWriter("trackio", spec)),
    "wandb": Destination(
        lambda: bool(os.environ.get(WANDB_KEY)), lambda folder, spec: RunWriter("wandb", spec)
    ),
}


class MetricWriters:
    """The writers that could be opened. One that fails is closed, and the others go on."""

    def __init__(self, folder: Path, spec: JobSpec) -> None:
        self._writers: dict[str, MetricWriter] = {}
        for package, destination in DESTINATIONS.items():
            if is_installed(package) and destination.is_enabled():
                try:
                    self._writers[package] = destination.open(folder, spec)
                except Exception as error:  # a package of others
                    log.warning("no metrics to %s: %s", package, named_error(error))

    def write(self, step: int, fields: Mapping[str, Any]) -> None:
        """fields: of a progress line; its numbers are written, without the step, which goes with each."""
        numbers = {name: float(value) for name, value in fields.items() if isinstance(value, int | float)}
        figures = {name: value for name, value in numbers.items() if name != "step"}
        for package in list(self._writers):
            self._attempt(package, lambda writer: writer.write(step, figures))

    def close(self) -> None:
        for package in list(self._writers):
            self._attempt(package, lambda writer: writer.close())

    def _attempt(self, package: str, use: Callable[[MetricWriter], None]) -> None:
        try:
            use(self._writers[package])
        except Exception as error:  # a package of others
            log.warning("no more metrics to %s: %s", package, named_error(error))
            del self._writers[package]


def is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
