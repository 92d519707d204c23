"""OpenAI's fine-tuning jobs: the JSON of jobs, events and checkpoints, and what is refused."""

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from api.services import Services
from settings.groups import ServerSettings
from tests.api.openai.app_requests import refusal
from tests.fakes.fake_backend import FakeBackend, make_models
from tests.tuning.scripted_service import (
    ROW,
    RecordingAdapters,
    create_job,
    make_service,
    upload,
    wait_for_job,
)
from tuning.service import TuningService

JOBS = "/v1/fine_tuning/jobs"


def post_job(client: FlaskClient, tuning: TuningService, **fields: Any) -> Any:
    body = {"model": "fake/model", "training_file": upload(tuning, ROW), "hyperparameters": {"max_steps": 10}}
    return client.post(JOBS, json={key: value for key, value in (body | fields).items() if value != "absent"})


def test_a_new_job_has_every_field(tuning_client: FlaskClient, tuning: TuningService) -> None:
    job = post_job(tuning_client, tuning, seed=7, metadata={"a": "b"}).get_json()
    method = {"type": "supervised"}
    hyperparameters = {"n_epochs": "auto", "batch_size": "auto", "learning_rate_multiplier": "auto"}
    method["supervised"] = {"hyperparameters": hyperparameters | {"max_steps": 10}}  # type: ignore[assignment]
    assert job == {
        "object": "fine_tuning.job",
        "id": job["id"],
        "model": "fake/model",
        "created_at": job["created_at"],
        "finished_at": None,
        "fine_tuned_model": None,
        "organization_id": "local",
        "result_files": [],
        "status": "validating_files",
        "training_file": job["training_file"],
        "validation_file": None,
        "trained_tokens": None,
        "estimated_finish": None,
        "seed": 7,
        "hyperparameters": hyperparameters,
        "method": method,
        "metadata": {"a": "b"},
        "integrations": [],
        "error": None,
    }
    assert job["id"].startswith("ftjob-")


def test_a_finished_job_has_numbers_events_and_checkpoints(
    tuning_client: FlaskClient, tuning: TuningService
) -> None:
    id = post_job(tuning_client, tuning).get_json()["id"]
    wait_for_job(tuning, id)
    job = tuning_client.get(f"{JOBS}/{id}").get_json()
    assert job["status"] == "succeeded" and job["fine_tuned_model"] == f"ft:model:local::{id[6:14]}"
    assert job["hyperparameters"] == {"n_epochs": 50, "batch_size": 1, "learning_rate_multiplier": 1.0}
    assert job["method"]["supervised"]["hyperparameters"]["lora_rank"] == 16
    assert job["finished_at"] and job["trained_tokens"] == 100 and len(job["result_files"]) == 1
    events = tuning_client.get(f"{JOBS}/{id}/events?limit=2").get_json()
    assert (events["object"], events["has_more"]) == ("list", True)
    assert events["data"][0]["message"] == "The job has successfully completed"
    assert events["data"][0].keys() == {"object", "id", "created_at", "level", "message", "type", "data"}
    page = tuning_client.get(f"{JOBS}/{id}/events?limit=100&after={events['data'][1]['id']}").get_json()
    assert not page["has_more"] and page["data"][-1]["message"] == f"Created fine-tuning job: {id}"
    checkpoints = tuning_client.get(f"{JOBS}/{id}/checkpoints").get_json()["data"]
    assert [each["step_number"] for each in checkpoints] == [10, 5]
    assert all(each["id"].startswith("ftckpt_") and each["fine_tuning_job_id"] == id for each in checkpoints)
    assert checkpoints[0]["fine_tuned_model_checkpoint"] == f"{job['fine_tuned_model']}:ckpt-step-10"
    assert checkpoints[0]["metrics"]["full_valid_loss"] == 0.2


def test_jobs_are_listed_by_their_metadata(tuning_client: FlaskClient, tuning: TuningService) -> None:
    first = post_job(tuning_client, tuning, metadata={"team": "red"}).get_json()["id"]
    second = post_job(tuning_client, tuning).get_json()["id"]
    everything = tuning_client.get(JOBS).get_json()
    assert [job["id"] for job in everything["data"]] == [second, first]
    selected = tuning_client.get(f"{JOBS}?metadata[team]=red").get_json()
    assert [job["id"] for job in selected["data"]] == [first]
    page = tuning_client.get(f"{JOBS}?limit=1&after={second}").get_json()
    assert [job["id"] for job in page["data"]] == [first] and not page["has_more"]


def test_a_running_job_is_paused_resumed_and_cancelled(
    tuning_client: FlaskClient, tuning: TuningService
) -> None:
    id = create_job(tuning, {"step_s": 0.05}, steps=1000).id
    wait_for_job(tuning, id, "running")
    assert tuning_client.post(f"{JOBS}/{id}/pause").status_code == 200
    wait_for_job(tuning, id, "paused")
    assert tuning_client.post(f"{JOBS}/{id}/resume").get_json()["status"] == "queued"
    assert tuning_client.post(f"{JOBS}/{id}/cancel").get_json()["status"] == "cancelled"
    message = f"fine_tuning_job_id has ended: its status is cancelled, got '{id}'"
    refusal(tuning_client.post(f"{JOBS}/{id}/cancel"), 400, message, "BadRequestError")


@pytest.mark.parametrize("path", ["alpha/graders/run", "alpha/graders/validate", "checkpoints/x/permissions"])
def test_graders_and_permissions_are_not_there(tuning_client: FlaskClient, path: str) -> None:
    assert tuning_client.post(f"/v1/fine_tuning/{path}", json={}).status_code == 404


@pytest.mark.parametrize("path", ["", "/events", "/checkpoints", "/cancel", "/pause", "/resume"])
def test_an_unknown_job_is_named(tuning_client: FlaskClient, path: str) -> None:
    method = "POST" if path in ("/cancel", "/pause", "/resume") else "GET"
    response = tuning_client.open(f"{JOBS}/ftjob-x{path}", method=method)
    refusal(response, 404, "Could not find fine tune: ftjob-x", "NotFoundError", "not_found")


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"training_file": "absent"}, "training_file", "is required"),
        ({"training_file": "file-x"}, "training_file", "does not exist: No such File object: file-x"),
        ({"training_file": "../etc/passwd"}, "training_file", "does not exist"),
        ({"validation_file": "file-x"}, "validation_file", "does not exist"),
        ({"suffix": "a b"}, "suffix", "letters, digits and ._-"),
        ({"suffix": "x" * 65}, "suffix", "up to 64"),
        ({"seed": -1}, "seed", "must be 0 to"),
        ({"metadata": {"a": 1}}, "metadata.a", "must be a string"),
        ({"integrations": [{"type": "wandb"}]}, "integrations", "not supported"),
        ({"method": {"type": "reinforcement"}}, "method", "must be supervised or dpo"),
        ({"method": {"supervised": 1}}, "method.supervised", "must be an object"),
        ({"hyperparameters": {"n_epochs": 51}}, "n_epochs", "must be a whole number, 1 to 50, got 51"),
        ({"hyperparameters": {"n_epochs": True}}, "n_epochs", "must be a whole number"),
        ({"hyperparameters": {"batch_size": 0}}, "batch_size", "1 to 256"),
        ({"hyperparameters": {"learning_rate_multiplier": 0}}, "learning_rate_multiplier", "above 0"),
        ({"hyperparameters": {"lora_rank": 1000}}, "lora_rank", "MAX_LORA_RANK=256"),
        ({"hyperparameters": {"warmth": 1}}, "warmth", "is not a hyperparameter"),
        (
            {"method": {"type": "dpo", "dpo": {"hyperparameters": {"beta": 3}}}},
            "beta",
            "must be a number above 0, at most 2, got 3",
        ),
    ],
)
def test_a_wrong_field_is_named(
    tuning_client: FlaskClient, tuning: TuningService, fields: dict[str, Any], param: str, words: str
) -> None:
    response = post_job(tuning_client, tuning, **fields)
    error = response.get_json()["error"]
    assert response.status_code == 400, error
    assert error["param"] == param and words in error["message"]
    assert tuning_client.get(JOBS).get_json()["data"] == []
    assert list((tuning.folder / "jobs").iterdir()) == []


def test_an_unknown_model_is_a_404(tuning_client: FlaskClient, tuning: TuningService) -> None:
    response = post_job(tuning_client, tuning, model="gpt-5")
    refusal(response, 404, "The model `gpt-5` does not exist.", "NotFoundError", "not_found")


def test_a_file_for_another_purpose_is_refused(tuning_client: FlaskClient, tuning: TuningService) -> None:
    id = tuning.files.create(io.BytesIO(b"x"), "x", "batch").id
    error = post_job(tuning_client, tuning, training_file=id).get_json()["error"]
    assert error["param"] == "training_file" and "purpose fine-tune, got 'batch'" in error["message"]


def test_a_dry_run_creates_nothing(tuning_client: FlaskClient, tuning: TuningService) -> None:
    result = post_job(tuning_client, tuning, dry_run=True).get_json()
    assert (result["object"], result["num_examples"], result["error"]) == ("fine_tuning.job.dry_run", 1, None)
    assert str(tuning.folder) not in str(result)
    assert tuning_client.get(JOBS).get_json()["data"] == []


def test_a_deleted_model_leaves_the_disk_and_does_not_return(backend: FakeBackend, tmp_path: Path) -> None:
    backend.lora = adapters = RecordingAdapters()
    with contextlib.closing(make_service(tmp_path, adapters)) as service:
        client = create_app(
            make_models(backend), ServerSettings(), services=Services(tuning=service)
        ).test_client()
        model = wait_for_job(service, create_job(service).id).fine_tuned_model
        folder = adapters.loaded[model]
        assert folder.is_dir() and client.get(f"/v1/models/{model}").status_code == 200
        reply = client.delete(f"/v1/models/{model}")
        assert reply.get_json() == {"id": model, "object": "model", "deleted": True}
        assert not folder.exists() and model not in adapters.loaded
        checkpoints = set(adapters.loaded)
        assert client.delete(f"/v1/models/{model}").status_code == 404
    after = RecordingAdapters()
    with contextlib.closing(make_service(tmp_path, after)) as service:
        assert set(after.loaded) == checkpoints


def test_a_trained_model_that_cannot_be_served_is_deleted_too(backend: FakeBackend, tmp_path: Path) -> None:
    backend.lora = adapters = RecordingAdapters()
    with contextlib.closing(make_service(tmp_path, adapters)) as service:
        client = create_app(
            make_models(backend), ServerSettings(), services=Services(tuning=service)
        ).test_client()
        model = wait_for_job(service, create_job(service).id).fine_tuned_model
        folder = adapters.loaded[model]
        adapters.unload(model)
        assert client.delete(f"/v1/models/{model}").status_code == 200
        assert not folder.exists()
