"""What the clean-up removes of sessions whose clients have gone, and what it leaves."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from inference.database import Database
from inference.errors import NotFound
from inference.lora.file_names import ADAPTER_CONFIG
from tests.tuning.runs.conftest import RunClient, RunServers
from tests.tuning.runs.passes import PASS, loss
from tests.tuning.scripted_service import RecordingAdapters
from tuning.jobs.fine_tuned_models import FineTunedModels
from tuning.runs import clean_up
from tuning.runs.checkpoints import Checkpoints
from tuning.runs.clean_up import ABANDONED_S, FINISHED_S, CleanUp
from tuning.runs.memory import RunMemory
from tuning.runs.pending_samples import PendingSamples
from tuning.runs.resident_runs import STATE_FOLDER, ResidentRuns, RunTrainer
from tuning.runs.sessions import NOTE_EVERY_S, Sessions
from tuning.runs.store import RUN_CHECKPOINTS, RUN_INFOS, SAMPLERS, SESSIONS
from tuning.runs.types import ClientSession, RunCheckpoint, RunInfo, RunOptions, SamplingSession
from tuning.service import DATABASE_FILE, SCHEMA

OPTIONS = RunOptions(base_model="m")
LONG_AGO = int(time.time()) - ABANDONED_S - 60


class Store:
    """The sessions and runs of a server whose trainer was never started, with the rows that a test adds."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.adapters = folder, RecordingAdapters()
        self.database = Database(folder / DATABASE_FILE, SCHEMA)
        self.sessions = Sessions(self.database)

    def clean_up(self) -> set[str]:
        """Returns the ids of the removed sessions."""
        folder, database = self.folder, self.database
        checkpoints = Checkpoints(folder, database, FineTunedModels(folder / "models", ("m",), self.adapters))
        residents = ResidentRuns(folder, database, no_trainer, RunMemory(lambda: 1 << 40), 8)
        cleaning = CleanUp(folder, database, self.sessions, residents, checkpoints, PendingSamples(database))
        return set(cleaning.run())

    def add_session(self, id: str, created: int = LONG_AGO, *, is_finished: bool = False) -> None:
        self.database.run(SESSIONS.insert, ClientSession(id=id, created=created, is_finished=is_finished))

    def add_run(self, session_id: str, last_request: int = LONG_AGO) -> RunInfo:
        """A parked run."""
        run = RunInfo(
            id=f"{session_id}:train:0",
            session_id=session_id,
            options=OPTIONS,
            created=LONG_AGO,
            folder=f"run-{session_id}",
            state="disk",
            last_request=last_request,
        )
        (self.folder / run.folder / STATE_FOLDER).mkdir(parents=True)
        self.database.run(RUN_INFOS.insert, run, session_id)
        return run

    def add_checkpoint(self, run: RunInfo) -> None:
        checkpoint = RunCheckpoint(
            id=f"tinker://{run.id}/weights/a",
            run_id=run.id,
            kind="weights",
            name="a",
            created=LONG_AGO,
            num_bytes=1,
            folder="weights-a",
            options=OPTIONS,
        )
        self.database.run(RUN_CHECKPOINTS.insert, checkpoint, run.id)

    def add_snapshot(self, run: RunInfo) -> SamplingSession:
        id = f"{run.session_id}:sample:0"
        sampler = SamplingSession(
            id=id,
            session_id=run.session_id,
            base_model="m",
            created=LONG_AGO,
            adapter=id,
            snapshot=f"{run.folder}/snapshot",
        )
        self.database.run(SAMPLERS.insert, sampler, run.session_id)
        folder = self.folder / sampler.snapshot
        folder.mkdir()
        (folder / ADAPTER_CONFIG).touch()
        self.adapters.load(id, folder, "")
        return sampler

    def session_ids(self) -> set[str]:
        return {session.id for session in self.sessions.list()}


def no_trainer() -> RunTrainer:
    raise AssertionError("nothing is trained")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """No session has given a sign of life since the start of the server."""
    monkeypatch.setattr(clean_up, "SILENT_S", -1.0)
    opened = Store(tmp_path)
    yield opened
    opened.database.close()


def test_an_abandoned_session_is_removed_with_all_that_is_of_it(store: Store) -> None:
    store.add_session("gone")
    store.add_session("fresh", int(time.time()))
    run = store.add_run("gone")
    sampler = store.add_snapshot(run)
    assert store.clean_up() == {"gone"}
    assert store.session_ids() == {"fresh"} and not store.adapters.loaded
    assert store.database.run(RUN_INFOS.find, run.id) is None
    assert store.database.run(SAMPLERS.find, sampler.id) is None
    assert not (store.folder / run.folder).exists()


def test_a_session_with_a_checkpoint_stays_until_that_is_deleted(store: Store) -> None:
    store.add_session("saved")
    run = store.add_run("saved")
    store.add_checkpoint(run)
    assert not store.clean_up() and store.database.run(RUN_INFOS.find, run.id) == run
    store.database.run(RUN_CHECKPOINTS.delete, f"tinker://{run.id}/weights/a")
    assert store.clean_up() == {"saved"}


def test_a_sign_of_life_counts_after_a_restart(store: Store) -> None:
    store.add_session("alive")
    store.sessions.heartbeat("alive")
    noted = store.sessions.get("alive").last_sign
    assert abs(noted - time.time()) < NOTE_EVERY_S
    store.sessions.heartbeat("alive")
    assert store.sessions.get("alive").last_sign == noted
    store.sessions = Sessions(store.database)
    assert not store.clean_up()


def test_a_session_is_not_removed_before_its_client_had_time_to_come_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clean_up, "SILENT_S", 60.0)
    store.add_session("back soon")
    assert not store.clean_up()


def test_silent_sessions_without_a_run_are_limited(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clean_up, "MAX_SILENT_SESSIONS", 2)
    now = int(time.time())
    for number in range(5):
        store.add_session(f"s{number}", now)
    store.add_run("s0", now)
    assert store.clean_up() == {"s1", "s2"}


@pytest.mark.parametrize("is_finished", [True, False])
def test_a_finished_session_leaves_no_state_of_its_runs(store: Store, is_finished: bool) -> None:
    now = int(time.time())
    store.add_session("ended", now, is_finished=is_finished)
    run = store.add_run("ended", now - FINISHED_S - 1)
    store.clean_up()
    assert (store.folder / run.folder / STATE_FOLDER).exists() is not is_finished


def test_a_trainer_without_runs_ends_and_is_started_again(
    servers: RunServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = RunClient(servers.open())
    run_id = client.create_run()
    monkeypatch.setattr(clean_up, "IDLE_TRAINER_S", -1.0)
    client.runs._clean_up.run()
    assert not servers.trainers[0].is_closed, "it has a run"
    monkeypatch.setattr(clean_up, "SILENT_S", -1.0)
    client.runs._clean_up.run()
    assert servers.trainers[0].is_closed
    assert loss(client.call(run_id, PASS)) > 0 and len(servers.trainers) == 2


def test_a_removed_run_has_no_queue(servers: RunServers, monkeypatch: pytest.MonkeyPatch) -> None:
    client = RunClient(servers.open())
    run_id = client.create_run()
    monkeypatch.setattr(clean_up, "SILENT_S", -1.0)
    monkeypatch.setattr(clean_up, "ABANDONED_S", -1)
    monkeypatch.setattr(client.runs._clean_up, "_next_removal", 0.0)
    client.runs._scheduler._clean()
    with pytest.raises(NotFound, match="there is no training run"):
        client.runs.promise(f"{run_id}:0")
