"""A tuning service whose programs are scripts, and helpers that create jobs and wait for them."""

import io
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inference.errors import BadRequest, NotFound
from inference.lora.adapter import AdapterCard
from settings.groups import TuningSettings
from tests.fakes.fake_backend import FakeAdapters, FakeBackend, make_models
from tuning.jobs.workspace import Programs
from tuning.service import TuningService
from tuning.types import FINISHED, Job, JobRequest, Status, TrainingBase

SCRIPTS = Programs(
    prepare=(sys.executable, "-m", "tests.tuning.scripted_prepare"),
    train=(sys.executable, "-m", "tests.tuning.scripted_trainer"),
    nice=1,  # the tests wait for them
    poll_s=0.02,
)
SETTINGS = TuningSettings(max_file_bytes=10_000_000)
ROW = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]}
TIMEOUT_S = 240.0  # on a machine that other programs load, too


class RecordingAdapters(FakeAdapters):
    """loaded: name -> folder; refused: names that cannot be served."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: dict[str, Path] = {}
        self.refused: set[str] = set()

    def load(self, name: str, folder: Path, source: str, *, replace: bool = False) -> AdapterCard:
        if name in self.refused:
            raise BadRequest("lora_path", "has a wrong shape")
        card = super().load(name, folder, source, replace=replace)
        self.loaded[name] = folder
        return card

    def unload(self, name: str) -> None:
        super().unload(name)
        del self.loaded[name]


class RecordingHost:
    """added: name -> folder and parent; adapters: name -> folder and model."""

    def __init__(self) -> None:
        self.added: dict[str, tuple[Path, str]] = {}
        self.adapters: dict[str, tuple[Path, str]] = {}

    def add(self, name: str, folder: Path, parent: str) -> None:
        self.added[name] = (folder, parent)

    def add_adapter(self, base: str, name: str, folder: Path, *, is_tried: bool) -> None:
        if base not in self.added:
            raise NotFound(base)
        self.adapters[name] = (folder, base)

    def remove(self, name: str) -> None:
        owner = self.adapters if name in self.adapters else self.added
        if name not in owner:
            raise NotFound(name)
        del owner[name]


def make_service(
    folder: Path,
    adapters: FakeAdapters,
    settings: TuningSettings = SETTINGS,
    **options: Any,
) -> TuningService:
    backend = FakeBackend()
    backend.lora = adapters
    names = (backend.model_id, "alias")
    weight_file = options.pop("weight_file", "of the base")
    base = TrainingBase(names=names, model_folder="unused", context=128, weight_file=weight_file)
    return TuningService(folder, make_models(backend), base, settings, **({"programs": SCRIPTS} | options))


def upload(service: TuningService, *rows: dict[str, Any]) -> str:
    """The id of a file with these rows; by default one."""
    content = "".join(json.dumps(row) + "\n" for row in rows or (ROW,))
    return service.files.create(io.BytesIO(content.encode()), "rows.jsonl", "fine-tune").id


def create_job(
    service: TuningService, trainer: dict[str, Any] | None = None, steps: int = 10, **fields: Any
) -> Job:
    training = fields.pop("training", None) or upload(service, ROW | {"trainer": trainer})
    hyperparameters = {"max_steps": steps} | fields.pop("hyperparameters", {})
    request = JobRequest(
        **({"model": "fake/model", "method": "supervised"} | fields),
        training=training,
        hyperparameters=hyperparameters,
    )
    return service.jobs.create(request)


def wait_for_job(service: TuningService, job_id: str, *statuses: Status) -> Job:
    """The job once it has one of the statuses; by default, once it has ended."""
    return wait_until(lambda: service.jobs.get(job_id), lambda job: job.status in (statuses or FINISHED))


def wait_until(read: Callable[[], Any], is_done: Callable[[Any], bool]) -> Any:
    end = time.monotonic() + TIMEOUT_S
    while not is_done(value := read()):
        assert time.monotonic() < end, f"it did not happen in time: {value}"
        time.sleep(0.01)
    return value


def messages(service: TuningService, job_id: str) -> list[str]:
    """The texts of a job's events that are no metrics, oldest first."""
    listing = service.jobs.events(job_id, limit=10_000)
    return [event.message for event in reversed(listing.values) if event.type == "message"]
