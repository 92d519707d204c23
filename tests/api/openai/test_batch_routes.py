"""The routes of batches: what they refuse, pages, idempotency keys, Llama Stack's paths."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from api.batches import store
from tests.api.batches.batch_server import BatchServer, as_line, request_line, serving
from tests.api.openai.app_requests import refusal
from tests.fakes.fake_backend import FakeBackend

LINE = as_line(request_line("a"))


@pytest.fixture
def batch_server(tmp_path: Path, backend: FakeBackend) -> Iterator[BatchServer]:
    with serving(tmp_path / "tuning", backend) as running:
        yield running


@pytest.mark.parametrize("prefix", ["/v1", "/v1/openai/v1"])
def test_a_batch_is_created_shown_listed_and_cancelled(
    batch_server: BatchServer, backend: FakeBackend, prefix: str
) -> None:
    backend.script = [threading.Event()]
    client = batch_server.client
    fields = {"input_file_id": batch_server.upload(LINE), "endpoint": "/v1/chat/completions"}
    created = client.post(f"{prefix}/batches", json=fields | {"completion_window": "24h"}).get_json()
    assert created["id"].startswith("batch_") and created["input_file_id"] == fields["input_file_id"]
    same = client.get(f"{prefix}/batches/{created['id']}").get_json()
    assert same.keys() == created.keys() and same["id"] == created["id"]
    listed = client.get(f"{prefix}/batches").get_json()
    assert [batch["id"] for batch in listed["data"]] == [created["id"]]
    assert (listed["object"], listed["first_id"], listed["has_more"]) == ("list", created["id"], False)
    cancelled = client.post(f"{prefix}/batches/{created['id']}/cancel").get_json()
    assert cancelled["status"] == "cancelling"


@pytest.mark.parametrize(
    ("fields", "message", "param"),
    [
        (
            {"completion_window": "1h"},
            "Invalid value: '1h'. Supported values are: '24h'.",
            "completion_window",
        ),
        (
            {"endpoint": "/v1/images"},
            "endpoint must be one of /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/responses, "
            "got '/v1/images'",
            "endpoint",
        ),
        ({"metadata": {"k": "v" * 513}}, "metadata.k may have at most 512 characters, got 513", "metadata.k"),
        (
            {"output_expires_after": {"anchor": "created_at", "seconds": 60}},
            "output_expires_after.seconds must be 3600 to 2592000, got 60",
            "output_expires_after.seconds",
        ),
        (
            {"input_file_id": "file-x"},
            "input_file_id must be the id of a file, got 'file-x'",
            "input_file_id",
        ),
        (
            {"input_file_id": "../../etc/passwd"},
            "input_file_id must be the id of a file, got '../../etc/passwd'",
            "input_file_id",
        ),
    ],
)
def test_a_wrong_field_is_named(
    batch_server: BatchServer, fields: dict[str, Any], message: str, param: str
) -> None:
    response = batch_server.post(**({"input_file_id": batch_server.upload(LINE)} | fields))
    error = response.get_json()["error"]
    assert (response.status_code, error["message"], error["param"]) == (400, message, param)
    assert batch_server.client.get("/v1/batches").get_json()["data"] == []
    assert list((batch_server.folder / "batches").iterdir()) == []


@pytest.mark.parametrize("name", ["input_file_id", "endpoint", "completion_window"])
def test_a_missing_field_is_named(batch_server: BatchServer, name: str) -> None:
    fields = {"input_file_id": "file-x", "endpoint": "/v1/responses", "completion_window": "24h"}
    del fields[name]
    response = batch_server.client.post("/v1/batches", json=fields)
    assert response.status_code == 400 and response.get_json()["error"]["param"] == name


def test_a_file_of_another_purpose_is_refused(batch_server: BatchServer) -> None:
    response = batch_server.post(input_file_id=batch_server.upload(LINE, purpose="user_data"))
    message = "input_file_id must be a file with the purpose batch, got 'user_data'"
    assert (response.status_code, response.get_json()["error"]["message"]) == (400, message)


def test_batches_are_listed_page_by_page(batch_server: BatchServer) -> None:
    ids = [batch_server.create(request_line("a"))["id"] for _ in range(3)]
    client = batch_server.client
    first = client.get("/v1/batches?limit=2").get_json()
    assert [batch["id"] for batch in first["data"]] == ids[:0:-1] and first["has_more"]
    second = client.get(f"/v1/batches?limit=2&after={first['last_id']}").get_json()
    assert [batch["id"] for batch in second["data"]] == ids[:1] and not second["has_more"]
    assert client.get("/v1/batches?after=batch_x").status_code == 400
    assert client.get("/v1/batches?limit=0").status_code == 400


@pytest.mark.parametrize("method, path", [("GET", ""), ("POST", "/cancel")])
def test_an_unknown_id_is_not_found(batch_server: BatchServer, method: str, path: str) -> None:
    response = batch_server.client.open(f"/v1/batches/batch_x{path}", method=method)
    refusal(response, 404, "No batch found with id 'batch_x'.", "NotFoundError", "not_found")


def test_an_idempotency_key_gives_the_first_batch_again(batch_server: BatchServer) -> None:
    file_id = batch_server.upload(LINE)
    first, second = (
        batch_server.post(input_file_id=file_id, idempotency_key="night").get_json() for _ in range(2)
    )
    assert first["id"] == second["id"]
    other = batch_server.post(input_file_id=file_id, idempotency_key="day").get_json()
    assert other["id"] != first["id"]
    conflict = batch_server.post(input_file_id=file_id, idempotency_key="night", metadata={"a": "b"})
    assert conflict.status_code == 409
    assert "previously used with different parameters" in conflict.get_json()["error"]["message"]
    batch_server.finish(first["id"])
    again = batch_server.post(input_file_id=file_id, idempotency_key="night").get_json()
    assert (again["id"], again["status"]) == (first["id"], "completed")


def test_the_number_of_unfinished_batches_is_limited(
    batch_server: BatchServer, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MAX_UNFINISHED", 2)
    backend.script = [threading.Event()]
    ids = [batch_server.create(request_line("a"))["id"] for _ in range(2)]
    response = batch_server.post(input_file_id=batch_server.upload(LINE))
    assert response.status_code == 400
    assert "2 batches are unfinished" in response.get_json()["error"]["message"]
    batch_server.client.post(f"/v1/batches/{ids[0]}/cancel")
    batch_server.finish(ids[0])
    assert batch_server.post(input_file_id=batch_server.upload(LINE)).status_code == 200


def test_a_server_without_tuning_has_no_batches(client: FlaskClient) -> None:
    for response in (client.get("/v1/batches"), client.get("/v1/batches/batch_x")):
        assert response.status_code == 404 and "TUNING_DIR" in response.get_json()["error"]["message"]
