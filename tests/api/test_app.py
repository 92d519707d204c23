"""What all dialects share: ids, keys, CORS, limits, and errors as JSON."""

import logging

import pytest
from flask import Flask
from flask.testing import FlaskClient

from api import create_app
from api.settings import AppSettings
from tests.fake_backend import FakeBackend, say
from tests.plain_dialect import routes


def client_with(settings: AppSettings) -> FlaskClient:
    backend = FakeBackend(say("a"))
    app: Flask = create_app(backend, settings)
    app.register_blueprint(routes(backend))
    return app.test_client()


@pytest.fixture
def client() -> FlaskClient:
    return client_with(AppSettings())


# Errors --------------------------------------------------------------------------------------------------


def test_an_unknown_route_is_json(client: FlaskClient) -> None:
    response = client.post("/nowhere")
    assert (response.status_code, response.json["detail"]) == (404, "Not Found")
    assert response.json["error"]["message"].startswith("there is no such route")


def test_a_wrong_method_names_the_right_ones(client: FlaskClient) -> None:
    response = client.get("/say")
    assert (response.status_code, response.json["detail"]) == (405, "Method Not Allowed")
    assert set(response.headers["Allow"].split(", ")) == {"OPTIONS", "POST"}
    assert response.headers.getlist("Content-Type") == ["application/json"]


def test_a_bug_tells_its_request_id_and_nothing_else(
    client: FlaskClient, caplog: pytest.LogCaptureFixture
) -> None:
    response = client.post("/fail", headers={"X-Request-Id": "abc"})
    assert response.status_code == 500
    assert "secret" not in response.text and "passwd" not in response.text
    assert "secret" in caplog.text and "id=abc" in caplog.text


def test_malformed_json_is_a_bad_request(client: FlaskClient) -> None:
    response = client.post("/say", data='{"prompt": ')
    assert (response.status_code, response.json["error"]["message"][:20]) == (400, "the body is not JSON")


def test_a_body_too_large_is_refused() -> None:
    response = client_with(AppSettings(max_body_bytes=10)).post("/say", json={"prompt": "x" * 20})
    assert (response.status_code, response.is_json) == (413, True)


def test_head_and_options_are_answered(client: FlaskClient) -> None:
    assert (client.head("/health").status_code, client.options("/say").status_code) == (200, 200)


# Request ids ---------------------------------------------------------------------------------------------


def test_a_request_id_is_kept(client: FlaskClient) -> None:
    response = client.post("/say", json={"stream": "sse"}, headers={"X-Request-Id": "my-id/1"})
    assert response.headers["X-Request-Id"] == "my-id/1"


@pytest.mark.parametrize("asked", ["", "two words", "x" * 129, "é", "tab\there"])
def test_a_request_id_not_fit_for_a_log_is_replaced(client: FlaskClient, asked: str) -> None:
    given = client.get("/nowhere", headers={"X-Request-Id": asked}).headers["X-Request-Id"]
    assert given != asked and len(given) == 32


@pytest.mark.parametrize("stream", ["", "sse"])
def test_every_request_is_one_log_line(
    client: FlaskClient, caplog: pytest.LogCaptureFixture, stream: str
) -> None:
    with caplog.at_level(logging.INFO, "hearth.access"):
        client.post("/say", json={"stream": stream}, headers={"X-Request-Id": "abc"}).get_data()
    (line,) = [record.getMessage() for record in caplog.records if record.name == "hearth.access"]
    assert line.startswith("request id=abc method=POST path=/say status=200 ms=")
    assert line.endswith(" tokens=1")


def test_a_path_cannot_forge_a_log_line(client: FlaskClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "hearth.access"):
        client.get("/a%0Arequest%20id=forged")
    assert "path=/a\\x0arequest\\x20id=forged status=404" in caplog.text


# Keys ----------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded() -> FlaskClient:
    return client_with(AppSettings(api_keys=("first", "sécond")))


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer first"},
        {"Authorization": "bearer  first"},
        {"X-Api-Key": "first"},
        {"Authorization": "Bearer sécond".encode().decode("latin1")},
    ],
)
def test_any_of_the_keys_opens(guarded: FlaskClient, headers: dict[str, str]) -> None:
    assert guarded.post("/say", json={}, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Bearer other"}, {"Authorization": "Basic first"}, {"X-Api-Key": ""}],
)
def test_without_a_key_every_route_is_closed(guarded: FlaskClient, headers: dict[str, str]) -> None:
    for path in ("/say", "/", "/nowhere"):
        response = guarded.post(path, json={}, headers=headers)
        assert (response.status_code, response.is_json) == (401, True)
        assert response.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("path", ["/health", "/health/live", "/health/ready", "/version"])
def test_health_and_version_need_no_key(guarded: FlaskClient, path: str) -> None:
    assert guarded.get(path).status_code == 200


@pytest.mark.parametrize("path", ["/", "/info", "/metrics", "/ping", "/v1/health"])
def test_what_tells_of_the_server_needs_no_key(guarded: FlaskClient, path: str) -> None:
    assert guarded.get(path).status_code != 401
    assert guarded.options("/say").status_code == 200


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/info", "/info/metrics"])
def test_what_only_looks_alike_needs_a_key(guarded: FlaskClient, path: str) -> None:
    assert guarded.get(path).status_code == 401


def test_a_path_that_ends_like_an_open_one_takes_no_body_without_a_key(guarded: FlaskClient) -> None:
    assert guarded.post("/say/health", json={}).status_code == 401


# CORS ----------------------------------------------------------------------------------------------------


@pytest.fixture
def shared() -> FlaskClient:
    return client_with(AppSettings(cors_origins=("https://a.example",), api_keys=("key",)))


PREFLIGHT = {
    "Origin": "https://a.example",
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization, x-own",
}


def test_a_preflight_needs_no_key(shared: FlaskClient) -> None:
    response = shared.options("/say", headers=PREFLIGHT)
    assert response.status_code == 204
    assert response.headers["Access-Control-Allow-Origin"] == "https://a.example"
    assert response.headers["Access-Control-Allow-Headers"] == "authorization, x-own"
    assert "POST" in response.headers["Access-Control-Allow-Methods"]


def test_another_origin_is_not_allowed(shared: FlaskClient) -> None:
    response = shared.options("/say", headers=PREFLIGHT | {"Origin": "https://b.example"})
    assert "Access-Control-Allow-Origin" not in response.headers


@pytest.mark.parametrize("path", ["/say", "/nowhere", "/fail"])
def test_answers_and_errors_alike_name_the_origin(shared: FlaskClient, path: str) -> None:
    for headers in ({}, {"Authorization": "Bearer key"}):
        response = shared.post(
            path, json={"stream": "sse"}, headers={"Origin": "https://a.example", **headers}
        )
        assert response.headers["Access-Control-Allow-Origin"] == "https://a.example"


def test_a_star_allows_every_origin() -> None:
    client = client_with(AppSettings(cors_origins=("*",)))
    headers = client.get("/health", headers={"Origin": "https://b.example"}).headers
    assert headers["Access-Control-Allow-Origin"] == "*"


def test_without_origins_nothing_is_said_of_them(client: FlaskClient) -> None:
    headers = client.get("/health", headers={"Origin": "https://b.example"}).headers
    assert not [name for name, _ in headers if name.startswith("Access-Control")]
