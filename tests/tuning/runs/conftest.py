"""Training runs over a tiny Llama, computed by the real trainer's process."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from inference.errors import NotFound
from tests import tiny
from tests.fake_backend import FakeBackend, make_models
from tests.tuning.scripted_service import RecordingAdapters
from tuning.runs.promise import Promise
from tuning.runs.service import TrainingRuns
from tuning.runs.types import Failure, RunOptions, RunRequest, RunResult
from tuning.service import TuningService
from tuning.types import TrainingBase

TIMEOUT_S = 120.0
BASE = "fake/model"


class RunClient:
    """A client of the runs with one session, which numbers the requests of each run as the SDK does."""

    def __init__(self, runs: TrainingRuns, session_id: str = "") -> None:
        self.runs = runs
        self.session_id = session_id or runs.create_session({}, None, "0.38.0")
        self.seq_ids: dict[str, int] = {}

    def create_run(self, number: int = 0, **options: Any) -> str:
        """The id of a new run; rank 4 by default."""
        self.expect(self.runs.create_run(self.session_id, number, make_options(**options)))
        return f"{self.session_id}:train:{number}"

    def send(self, run_id: str, request: RunRequest) -> Promise:
        self.seq_ids[run_id] = self.seq_ids.get(run_id, 0) + 1
        return self.runs.submit(run_id, self.seq_ids[run_id], request)

    def call(self, run_id: str, request: RunRequest) -> Any:
        return self.expect(self.send(run_id, request))

    def fail(self, run_id: str, request: RunRequest) -> Failure:
        result = wait_for(self.send(run_id, request))
        assert isinstance(result, Failure)
        return result

    def expect(self, promise: Promise) -> Any:
        result = wait_for(promise)
        assert not isinstance(result, Failure), result
        return result


def make_options(**options: Any) -> RunOptions:
    return RunOptions(**({"base_model": BASE, "rank": 4, "seed": 1} | options))


def wait_for(promise: Promise) -> RunResult | Failure:
    end = time.monotonic() + TIMEOUT_S
    while (result := promise.result()) is None:
        assert time.monotonic() < end, f"{promise.request_id} has no result"
        time.sleep(0.002)
    return result


class ServingAdapters(RecordingAdapters):
    """folder_of raises NotFound, as the real ones do."""

    def folder_of(self, name: str) -> Path:
        if name not in self.loaded:
            raise NotFound(name)
        return self.loaded[name]


OpenRuns = Callable[..., TrainingRuns]


@pytest.fixture(scope="module")
def serving_adapters() -> ServingAdapters:
    return ServingAdapters()


@pytest.fixture(scope="module")
def open_runs(
    tmp_path_factory: pytest.TempPathFactory, serving_adapters: ServingAdapters
) -> Iterator[Callable[..., TuningService]]:
    """Opens the service in the module's folder, as often as the server is started."""
    folder = tmp_path_factory.mktemp("runs")
    model = tiny.llama(folder / "model")
    base = TrainingBase(names=(BASE, "alias"), model_folder=str(model), context=64, dtype="float32")
    services: list[TuningService] = []

    def open_one(**options: Any) -> TuningService:
        models = make_models(FakeBackend())
        services.append(
            TuningService(folder / "tuning", models, base, serving_adapters, max_file_bytes=1, **options)
        )
        return services[-1]

    yield open_one
    for service in services:
        service.close()


@pytest.fixture(scope="module")
def client(open_runs: Callable[..., TuningService]) -> RunClient:
    return RunClient(open_runs().runs)
