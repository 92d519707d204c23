"""Sessions and sampling sessions, and what stays of them after a restart."""

import sqlite3
from pathlib import Path

import pytest

from inference.database import Database
from inference.errors import BadRequest, NotFound
from tests.tuning.conftest import MakeService
from tuning.runs.sessions import SessionFinished
from tuning.service import DATABASE_FILE, SCHEMA, TuningService
from tuning.store.schema import JOB_TABLES


def create_session(service: TuningService) -> str:
    return service.runs.create_session({"user": "a"}, "a run", "0.38.0")


def test_a_finished_session_says_so_to_its_heartbeat_and_refuses_the_rest(service: TuningService) -> None:
    session_id = create_session(service)
    service.runs.heartbeat(session_id)
    sampler_id = service.runs.create_sampler(session_id, 1, base_model="alias").id
    assert service.runs.open_sampler(sampler_id).id == sampler_id
    service.runs.finish(session_id)
    with pytest.raises(SessionFinished) as error:
        service.runs.heartbeat(session_id)
    assert error.value.status == 410
    with pytest.raises(BadRequest, match="is finished"):
        service.runs.create_sampler(session_id, 0, base_model="alias")
    with pytest.raises(BadRequest, match="is finished"):
        service.runs.open_sampler(sampler_id)


def test_an_unknown_session_is_not_found(service: TuningService) -> None:
    with pytest.raises(NotFound, match="no session 'x'"):
        service.runs.heartbeat("x")


def test_a_restart_keeps_sessions_and_their_sampling_sessions(open_services: MakeService) -> None:
    first = open_services()
    session_id = create_session(first)
    sampler = first.runs.create_sampler(session_id, 3, base_model="alias:suffix")
    first.close()
    second = open_services()
    assert second.runs.session(session_id).user_metadata == {"user": "a"}
    assert second.runs.samplers(session_id) == [sampler] == [second.runs.sampler(f"{session_id}:sample:3")]


def test_the_same_number_is_the_same_sampling_session(service: TuningService) -> None:
    session_id = create_session(service)
    first = service.runs.create_sampler(session_id, 0, base_model="alias")
    assert service.runs.create_sampler(session_id, 0, base_model="alias") == first


@pytest.mark.parametrize("path", ["", "tinker://", "tinker://a/weights/../x", "tinker://a/other/x", "/etc/x"])
def test_what_is_no_path_of_a_checkpoint_is_refused(service: TuningService, path: str) -> None:
    with pytest.raises(BadRequest, match="must be tinker://RUN/KIND/NAME"):
        service.runs.create_sampler(create_session(service), 0, model_path=path)


def test_a_model_that_is_not_served_is_refused(service: TuningService) -> None:
    with pytest.raises(BadRequest, match="base_model must be one of fake/model, alias"):
        service.runs.create_sampler(create_session(service), 0, base_model="other")


def test_a_database_without_training_runs_gets_their_tables(tmp_path: Path) -> None:
    file = tmp_path / DATABASE_FILE
    with sqlite3.connect(file) as connection:
        connection.executescript(f"{JOB_TABLES} PRAGMA user_version = 1;")
        connection.execute("INSERT INTO runs VALUES ('job', 7, '{}')")
    connection.close()
    database = Database(file, SCHEMA)
    rows = database.run(lambda connection: connection.execute("SELECT job FROM runs").fetchall())
    tables = database.run(lambda connection: connection.execute("SELECT * FROM training_runs").fetchall())
    database.close()
    assert rows == [("job",)] and not tables and [path.name for path in tmp_path.glob("*.unreadable*")] == []
