"""Lists of sessions, runs and checkpoints, and what changes a checkpoint, in the JSON of the contract."""

from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from api.services import Services
from inference.errors import NotFound
from settings.groups import ServerSettings
from tests.api.tinker.scripted_runs import RUN, SAMPLER, SESSION, ScriptedRuns, service_of
from tests.fakes.fake_backend import FakeBackend, make_models
from tuning.runs.types import (
    CheckpointKind,
    ClientSession,
    RunCheckpoint,
    RunInfo,
    RunOptions,
    SamplingSession,
)

OPTIONS = RunOptions(
    base_model="alias", rank=8, train_mlp=False, user_metadata={"renderer_name": "role_colon"}
)
NUM_RUNS = 3
VERSION = "X-Stainless-Package-Version"


class ListedRuns(ScriptedRuns):
    """Three runs, newest first; the first one has a checkpoint of each kind. Changes are recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[tuple[Any, ...]] = []

    def runs(self, session_id: str | None = None) -> list[RunInfo]:
        run = RunInfo(id=RUN, session_id=SESSION, options=OPTIONS, created=100, folder="", last_request=160)
        return [run, *(replace(run, id=f"s{number}:train:0") for number in range(2, NUM_RUNS + 1))]

    def run(self, run_id: str) -> RunInfo:
        runs = {run.id: run for run in self.runs()}
        if run_id not in runs:
            raise NotFound(f"there is no run {run_id}")
        return runs[run_id]

    def checkpoints(self, run_id: str | None = None) -> list[RunCheckpoint]:
        kinds: tuple[CheckpointKind, ...] = ("external_weights", "sampler_weights", "weights")
        return [checkpoint(kind) for kind in kinds] if run_id in (None, RUN) else []

    def checkpoint(self, path: str) -> RunCheckpoint:
        checkpoints = {each.id: each for each in self.checkpoints()}
        if path not in checkpoints:
            raise NotFound(f"there is no checkpoint {path}")
        return checkpoints[path]

    def sessions(self) -> list[ClientSession]:
        return [self.session(SESSION)]

    def session(self, session_id: str) -> ClientSession:
        return ClientSession(id=session_id, created=1, user_metadata={"a": "b"}, display_name="mine")

    def samplers(self, session_id: str) -> list[SamplingSession]:
        return [self.sampler(SAMPLER)]

    def delete_checkpoint(self, path: str) -> None:
        self.changes.append(("delete", self.checkpoint(path).id))

    def set_ttl(self, path: str, ttl_seconds: int | None) -> None:
        self.changes.append(("ttl", self.checkpoint(path).id, ttl_seconds))

    def publish(self, path: str, *, is_public: bool) -> None:
        self.changes.append(("publish", self.checkpoint(path).id, is_public))


def checkpoint(kind: CheckpointKind) -> RunCheckpoint:
    return RunCheckpoint(
        id=f"tinker://{RUN}/{kind}/0001",
        run_id=RUN,
        kind=kind,
        name="0001",
        created=120,
        num_bytes=3,
        folder="",
        options=OPTIONS,
        expires=7320,
    )


@pytest.fixture
def runs() -> ListedRuns:
    return ListedRuns()


@pytest.fixture
def api(runs: ListedRuns) -> FlaskClient:
    app = create_app(
        make_models(FakeBackend()),
        ServerSettings(version="1.2.3"),
        services=Services(tuning=service_of(runs)),
    )
    return app.test_client()


def test_a_run_has_its_newest_checkpoints(api: FlaskClient) -> None:
    run = api.get(f"/api/v1/training_runs/{RUN}").json
    assert run.pop("last_checkpoint")["checkpoint_id"] == "weights/0001"
    assert run.pop("last_sampler_checkpoint")["checkpoint_id"] == "sampler_weights/0001"
    assert run == {
        "training_run_id": RUN,
        "base_model": "alias",
        "model_owner": "local",
        "is_lora": True,
        "corrupted": False,
        "lora_rank": 8,
        "last_request_time": "1970-01-01T00:02:40Z",
        "user_metadata": {"renderer_name": "role_colon"},
    }
    assert api.get("/api/v1/training_runs/unknown:train:0").status_code == 404


def test_runs_come_in_pages(api: FlaskClient) -> None:
    reply = api.get("/api/v1/training_runs?limit=1&offset=1&access_scope=accessible").json
    assert [run["training_run_id"] for run in reply["training_runs"]] == ["s2:train:0"]
    assert reply["cursor"] == {"offset": 1, "limit": 1, "total_count": NUM_RUNS}
    assert len(api.get("/api/v1/training_runs").json["training_runs"]) == NUM_RUNS


def test_a_checkpoint_has_every_field(api: FlaskClient) -> None:
    first, *_ = api.get("/api/v1/checkpoints?limit=1").json["checkpoints"]
    assert first == {
        "checkpoint_id": "external_weights/0001",
        "checkpoint_type": "external",
        "time": "1970-01-01T00:02:00Z",
        "tinker_path": f"tinker://{RUN}/external_weights/0001",
        "size_bytes": 3,
        "public": False,
        "user_metadata": {},
        "expires_at": "1970-01-01T02:02:00Z",
    }


@pytest.mark.parametrize(
    "path", ["checkpoints", f"training_runs/{RUN}/checkpoints", f"models/{RUN}/checkpoints"]
)
def test_external_checkpoints_are_listed_to_clients_that_know_them(api: FlaskClient, path: str) -> None:
    def types_for(version: str) -> list[str]:
        reply = api.get(f"/api/v1/{path}", headers={VERSION: version}).json
        return [each["checkpoint_type"] for each in reply["checkpoints"]]

    assert types_for("0.28.0") == types_for("1.0") == types_for("odd") == ["external", "sampler", "training"]
    assert types_for("0.27.9") == ["sampler", "training"]


def test_sessions_are_listed_with_what_they_have(api: FlaskClient) -> None:
    reply = api.get("/api/v1/sessions").json
    assert reply == {"sessions": [SESSION], "cursor": {"offset": 0, "limit": 20, "total_count": 1}}
    session = api.get(f"/api/v1/sessions/{SESSION}").json
    assert session["training_run_ids"][0] == RUN and session["sampler_ids"] == [SAMPLER]
    assert (session["user_metadata"], session["display_name"]) == ({"a": "b"}, "mine")


def test_weights_info_says_what_a_checkpoint_is_of(api: FlaskClient) -> None:
    path = f"tinker://{RUN}/weights/0001"
    assert api.post("/api/v1/weights_info", json={"tinker_path": path}).json == {
        "base_model": "alias",
        "is_lora": True,
        "lora_rank": 8,
        "train_unembed": True,
        "train_mlp": False,
        "train_attn": True,
        "optimizer_config": {"type": "adamw"},
    }
    reply = api.post("/api/v1/weights_info", json={"tinker_path": f"{path}2"})
    assert reply.status_code == 404 and reply.json["detail"]


def test_checkpoints_are_changed_by_a_path_whose_id_has_a_slash(api: FlaskClient, runs: ListedRuns) -> None:
    url, path = f"/api/v1/training_runs/{RUN}/checkpoints/weights/0001", f"tinker://{RUN}/weights/0001"
    for seconds in (7200, None):
        reply = api.put(f"{url}/ttl", json={"ttl_seconds": seconds})
        assert (reply.status_code, reply.json) == (200, {})
    assert (api.post(f"{url}/publish").json, api.delete(f"{url}/publish").status_code) == ({}, 204)
    assert api.delete(url).status_code == 204
    assert runs.changes == [
        ("ttl", path, 7200),
        ("ttl", path, None),
        ("publish", path, True),
        ("publish", path, False),
        ("delete", path),
    ]
    assert api.delete(f"{url}2").status_code == 404
