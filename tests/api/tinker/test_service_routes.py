"""The routes of the service, of sessions, and the keys of clients."""

import pytest
from flask.testing import FlaskClient

from api import create_app
from api.services import Services
from settings.groups import ServerSettings
from tests.api.tinker.scripted_runs import SESSION, ScriptedRuns, service_of
from tests.fakes.fake_backend import FakeBackend, make_models


def test_the_served_names_can_be_trained(api: FlaskClient) -> None:
    models = api.get("/api/v1/get_server_capabilities").json["supported_models"]
    assert [model["model_name"] for model in models] == ["fake/model", "alias"]
    assert models[0]["trainable"] and models[0]["max_context_length"] == 128


def test_chunks_of_the_client_fit_into_a_body(api: FlaskClient) -> None:
    config = api.post("/api/v1/client/config", json={"sdk_version": "0.38.0"}).json
    assert config["fwdbwd_max_chunk_bytes_count"] == 500_000
    assert config["sample_use_retrieve_futures"] is True
    assert api.post("/api/v1/client/dynamic_config", json={}).json["refresh_interval_sec"] == 300


def test_telemetry_is_dropped(api: FlaskClient) -> None:
    assert api.post("/api/v1/telemetry", json={"events": []}).json == {"status": "accepted"}


def test_a_heartbeat_says_whether_its_session_is_open(api: FlaskClient) -> None:
    body = {"tags": [], "user_metadata": {}, "sdk_version": "0.38.0"}
    assert api.post("/api/v1/create_session", json=body).json["session_id"] == SESSION
    statuses = {
        session: api.post("/api/v1/session_heartbeat", json={"session_id": session}).status_code
        for session in (SESSION, "closed", "unknown")
    }
    assert statuses == {SESSION: 200, "closed": 410, "unknown": 404}


@pytest.mark.parametrize(
    ("field", "value"),
    [("user_metadata", {"a": "x" * 70_000}), ("display_name", "x" * 2000), ("sdk_version", "1" * 2000)],
)
def test_what_a_session_stores_is_short(api: FlaskClient, field: str, value: object) -> None:
    reply = api.post("/api/v1/create_session", json={field: value})
    assert reply.status_code == 400 and f"{field} must have at most" in reply.json["detail"]


def test_a_session_ends(api: FlaskClient) -> None:
    body = {"reason": {"type": "errored"}, "detail": None}
    replies = [api.post(f"/api/v1/sessions/{id}/finish", json=body) for id in (SESSION, "unknown")]
    assert [(reply.status_code, reply.json == {}) for reply in replies] == [(200, True), (404, False)]


def test_a_server_without_tuning_says_so(client: FlaskClient) -> None:
    reply = client.post("/api/v1/create_session", json={})
    assert reply.status_code == 404 and "TUNING_DIR" in reply.json["detail"]


def test_unknown_paths_and_methods_are_refused_in_words(api: FlaskClient) -> None:
    reply = api.post("/api/v1/copy_weights", json={"source_path": "tinker://a/weights/b"})
    assert reply.status_code == 400 and reply.json["detail"].startswith("copy_weights is not served here")
    custom_loss = api.post("/api/v1/create_custom_loss", json={})
    assert custom_loss.status_code == 400 and "forward_backward_custom" in custom_loss.json["detail"]
    for path in ("billing", "trace_export", "auth/token"):
        reply = api.post(f"/api/v1/{path}", json={})
        assert reply.status_code == 404 and "detail" in reply.json
    assert "detail" in api.get("/api/v1/asample").json


@pytest.mark.parametrize("key", ["secret", "tml-secret"])
@pytest.mark.parametrize("header", ["X-API-Key", "Authorization"])
def test_a_key_is_taken_with_and_without_the_clients_prefix(key: str, header: str) -> None:
    settings = ServerSettings(version="1.2.3", api_keys=("secret",))
    app = create_app(
        make_models(FakeBackend()), settings, services=Services(tuning=service_of(ScriptedRuns()))
    )
    client, value = app.test_client(), f"Bearer {key}" if header == "Authorization" else key
    path = "/api/v1/get_server_capabilities"
    assert client.get(path, headers={header: value}).status_code == 200
    assert client.get(path, headers={header: value + "x"}).status_code == 401
    assert client.get("/api/v1/healthz").status_code == 200
