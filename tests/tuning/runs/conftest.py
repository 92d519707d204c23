"""Training runs over a tiny Llama, whose trainer computes in the process of the tests."""

import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inference.database import Database
from tests.tiny_models import tiny
from tests.tuning.scripted_service import RecordingAdapters
from tuning.jobs.fine_tuned_models import FineTunedModels
from tuning.runs.promise import Promise
from tuning.runs.service import TrainingRuns
from tuning.runs.trainer_process import TrainerDied, to_error
from tuning.runs.types import Failure, RunOptions, RunRequest, RunResult
from tuning.service import DATABASE_FILE, SCHEMA
from tuning.trainer.messages import Arrays, TrainerMessage, read_message, write_message
from tuning.trainer.server import TrainerServer
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


class InlineTrainer:
    """A RunTrainer without a process of its own.

    dies_at     the verb at which it dies
    is_waiting  it waits before each micro-batch until it is interrupted
    """

    def __init__(self, base: TrainingBase) -> None:
        self._server = TrainerServer(base)
        self.resident_bytes = 0
        self.dies_at = ""
        self.is_waiting = self.is_computing = self.is_closed = False

    def call(self, verb: str, arrays: Arrays | None = None, **fields: Any) -> TrainerMessage:
        if verb == self.dies_at:
            raise TrainerDied("the trainer died")
        if self.is_waiting and verb == "forward_backward":
            self._server.trainer.base.backbone.register_forward_pre_hook(self._wait, prepend=True)
        stream = io.BytesIO()
        write_message(stream, {"verb": verb, **fields}, arrays or {})
        stream.seek(0)
        message = read_message(stream)
        assert message
        header, reply_arrays = self._server.reply(message)
        if "error" in header:
            raise to_error(header)
        return TrainerMessage(dict(header), reply_arrays)

    def interrupt(self) -> None:
        self._server.interruption.set()

    def _wait(self, *_: Any) -> None:
        self.is_computing = True
        while not self._server.interruption.is_set:
            time.sleep(0.01)

    def kill(self) -> None:
        raise AssertionError("it takes too long")

    def close(self) -> None:
        self.is_closed = True


class RunServers:
    """Opens the runs in a folder, as often as a server is started. trainers: in the order of their starts."""

    def __init__(self, folder: Path, base: TrainingBase) -> None:
        self.folder, self.base = folder, base
        self.adapters = RecordingAdapters()
        self.trainers: list[InlineTrainer] = []
        self._open: list[tuple[TrainingRuns, Database]] = []

    def open(self, folder: Path | None = None, **options: Any) -> TrainingRuns:
        folder = folder or self.folder
        database = Database(folder / DATABASE_FILE, SCHEMA)
        models = FineTunedModels(folder / "models", self.base.names, self.adapters)
        runs = TrainingRuns(folder / "runs", database, self.base, models, self._start_trainer, **options)
        self._open.append((runs, database))
        return runs

    def close(self) -> None:
        """Stop all servers."""
        for runs, database in self._open:
            runs.close()
            database.close()
        self._open.clear()

    def _start_trainer(self) -> InlineTrainer:
        self.trainers.append(InlineTrainer(self.base))
        return self.trainers[-1]


@pytest.fixture(scope="session")
def training_base(tmp_path_factory: pytest.TempPathFactory) -> TrainingBase:
    folder = tiny.llama(tmp_path_factory.mktemp("tiny_llama"))
    return TrainingBase(names=(BASE, "alias"), model_folder=str(folder), context=64, dtype="float32")


@pytest.fixture(scope="module")
def shared_servers(
    tmp_path_factory: pytest.TempPathFactory, training_base: TrainingBase
) -> Iterator[RunServers]:
    servers = RunServers(tmp_path_factory.mktemp("runs"), training_base)
    yield servers
    servers.close()


@pytest.fixture
def servers(tmp_path: Path, training_base: TrainingBase) -> Iterator[RunServers]:
    opened = RunServers(tmp_path / "tuning", training_base)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def client(shared_servers: RunServers) -> RunClient:
    return RunClient(shared_servers.open())
