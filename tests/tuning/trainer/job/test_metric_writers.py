"""Metrics reach the programs that are installed, and a program that fails ends no job."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.tuning.trainer.conftest import job_spec
from tuning.trainer.job import metric_writers
from tuning.trainer.job.metric_writers import TENSORBOARD_FOLDER, MetricWriters
from tuning.trainer.job.progress import ProgressLog


class RecordingPackage(ModuleType):
    """A package with the functions of trackio and wandb. fails_at: the step that it cannot log."""

    def __init__(self, fails_at: int | None = None) -> None:
        super().__init__("recording")
        self.fails_at = fails_at
        self.calls: list[Any] = []

    def init(self, **options: Any) -> None:
        self.calls.append((options["project"], options["name"], options["config"]["lora_rank"]))

    def log(self, figures: dict[str, float], step: int) -> None:
        if step == self.fails_at:
            raise ConnectionError("no route")
        self.calls.append((step, figures))

    def finish(self) -> None:
        self.calls.append("finish")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, RecordingPackage]:
    """The packages that count as installed; the test may add to them."""
    packages: dict[str, RecordingPackage] = {}
    monkeypatch.setattr(metric_writers, "is_installed", lambda package: package in packages)
    for name in ("trackio", "wandb"):
        packages[name] = RecordingPackage()
        monkeypatch.setitem(sys.modules, name, packages[name])
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    return packages


def train(folder: Path) -> None:
    """Write the progress of a job of two steps."""
    writers, progress = MetricWriters(folder, job_spec()), ProgressLog(folder)
    progress.copy_metrics(writers.write)
    progress.write("started", total_steps=2)
    progress.write("step", step=1, train_loss=0.5)
    progress.write("step", step=2, train_loss=0.25)
    progress.write("evaluation", step=2, valid_loss=0.75)
    writers.close()


EXPECTED = [
    ("hearth", "job-1", 4),
    (1, {"train_loss": 0.5}),
    (2, {"train_loss": 0.25}),
    (2, {"valid_loss": 0.75}),
    "finish",
]


def test_metrics_go_to_trackio_and_to_wandb_only_with_a_key(
    tmp_path: Path, installed: dict[str, RecordingPackage], monkeypatch: pytest.MonkeyPatch
) -> None:
    train(tmp_path)
    assert installed["trackio"].calls == EXPECTED and installed["wandb"].calls == []
    monkeypatch.setenv("WANDB_API_KEY", "key")
    train(tmp_path)
    assert installed["wandb"].calls == EXPECTED


def test_a_package_that_fails_gets_no_more(
    tmp_path: Path, installed: dict[str, RecordingPackage], caplog: pytest.LogCaptureFixture
) -> None:
    installed["trackio"].fails_at = 2
    train(tmp_path)
    assert installed["trackio"].calls == EXPECTED[:2]
    assert "no more metrics to trackio: ConnectionError: no route" in caplog.text
    assert len((tmp_path / "progress.jsonl").read_text().splitlines()) == 4


def test_tensorboard_reads_the_event_files(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(tmp_path)
    events = EventAccumulator(str(tmp_path / TENSORBOARD_FOLDER)).Reload()
    assert [(event.step, event.value) for event in events.Scalars("train_loss")] == [(1, 0.5), (2, 0.25)]
    assert [event.value for event in events.Scalars("valid_loss")] == [0.75]
