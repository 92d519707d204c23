"""Behaviour that all dialects share: request ids, keys, CORS, limits, and errors as JSON."""

import base64
import logging

import pytest
from flask import Flask
from flask.testing import FlaskClient

from api import create_app
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models, say
from tests.fakes.plain_dialect import routes


def client_with(settings: ServerSettings) -> FlaskClient:
    backend = FakeBackend(say("a"))
    app: Flask = create_app(make_models(backend), settings)
    app.register_blueprint(routes(backend))
    return app.test_client()


@pytest.fixture
def client() -> FlaskClient:
    return client_with(ServerSettings())


def test_an_unknown_route_gives_a_json_error(client: FlaskClient) -> None:
    response = client.post("/nowhere")
    assert (response.status_code, response.json["detail"]) == (404, "Not Found")
    assert response.json["error"]["message"].startswith("there is no such route")


@pytest.mark.parametrize(
    ("path", "name"), [("/api/chat", "Ollama"), ("/v1/messages", "Anthropic"), ("/api/chats", "")]
)
def test_a_client_of_another_api_reads_which_one_is_served(client: FlaskClient, path: str, name: str) -> None:
    message = client.post(path).json["error"]["message"]
    assert message.endswith(f"{name}'s API is not served: use a client of OpenAI's, at /v1") == bool(name)


def test_the_error_of_an_unknown_route_has_the_fields_that_openais_clients_read(client: FlaskClient) -> None:
    error = client.post("/v1/moderations").json["error"]
    assert (error["type"], error["param"], error["code"]) == ("NotFoundError", None, 404)


def test_a_wrong_method_is_refused_with_the_allowed_ones(client: FlaskClient) -> None:
    response = client.get("/say")
    assert (response.status_code, response.json["detail"]) == (405, "Method Not Allowed")
    assert set(response.headers["Allow"].split(", ")) == {"OPTIONS", "POST"}
    assert response.headers.getlist("Content-Type") == ["application/json"]


def test_an_internal_error_shows_only_its_request_id(
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
    response = client_with(ServerSettings(max_body_bytes=10)).post("/say", json={"prompt": "x" * 20})
    assert (response.status_code, response.is_json) == (413, True)


def test_head_and_options_are_answered(client: FlaskClient) -> None:
    assert (client.head("/health").status_code, client.options("/say").status_code) == (200, 200)


def test_a_valid_request_id_is_kept(client: FlaskClient) -> None:
    response = client.post("/say", json={"stream": "sse"}, headers={"X-Request-Id": "my-id/1"})
    assert response.headers["X-Request-Id"] == "my-id/1"


@pytest.mark.parametrize("sent", ["", "two words", "x" * 129, "é", "tab\there"])
def test_a_request_id_that_cannot_be_logged_is_replaced(client: FlaskClient, sent: str) -> None:
    request_id = client.get("/nowhere", headers={"X-Request-Id": sent}).headers["X-Request-Id"]
    assert request_id != sent and len(request_id) == 32


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


def basic(credentials: str) -> str:
    """The Authorization header of curl --user."""
    return f"Basic {base64.b64encode(credentials.encode()).decode()}"


@pytest.fixture
def guarded() -> FlaskClient:
    return client_with(ServerSettings(api_keys=("first", "sécond")))


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer first"},
        {"Authorization": "bearer  first"},
        {"X-Api-Key": "first"},
        {"Authorization": basic("anyone:first")},
        {"Authorization": basic(":sécond").replace("Basic", "basic")},
        {"Authorization": "Bearer sécond".encode().decode("latin1")},
    ],
)
def test_any_of_the_keys_is_accepted(guarded: FlaskClient, headers: dict[str, str]) -> None:
    assert guarded.post("/say", json={}, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer other"},
        {"Authorization": "Basic first"},
        {"Authorization": basic("first")},
        {"Authorization": basic("first:other")},
        {"X-Api-Key": ""},
    ],
)
def test_without_a_key_every_route_refuses(guarded: FlaskClient, headers: dict[str, str]) -> None:
    for path in ("/say", "/", "/nowhere"):
        response = guarded.post(path, json={}, headers=headers)
        assert (response.status_code, response.is_json) == (401, True)
        assert response.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("path", ["/health", "/health/live", "/health/ready", "/version", "/alpha/health"])
def test_health_and_version_need_no_key(guarded: FlaskClient, path: str) -> None:
    assert guarded.get(path).status_code == 200


@pytest.mark.parametrize("path", ["/", "/info", "/metrics", "/ping", "/v1/health"])
def test_routes_that_describe_the_server_need_no_key(guarded: FlaskClient, path: str) -> None:
    assert guarded.get(path).status_code != 401
    assert guarded.options("/say").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models",
        "/v1/models/info",
        "/info/metrics",
        "/v1/models/me/version",
        "/v1/openai/v1/models/health",
    ],
)
def test_similar_paths_need_a_key(guarded: FlaskClient, path: str) -> None:
    assert guarded.get(path).status_code == 401


def test_a_path_that_ends_like_an_open_one_refuses_posts_without_a_key(guarded: FlaskClient) -> None:
    assert guarded.post("/say/health", json={}).status_code == 401


@pytest.fixture
def shared() -> FlaskClient:
    return client_with(ServerSettings(cors_origins=("https://a.example",), api_keys=("key",)))


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
def test_responses_and_errors_name_the_origin(shared: FlaskClient, path: str) -> None:
    for headers in ({}, {"Authorization": "Bearer key"}):
        response = shared.post(
            path, json={"stream": "sse"}, headers={"Origin": "https://a.example", **headers}
        )
        assert response.headers["Access-Control-Allow-Origin"] == "https://a.example"


def test_a_star_allows_every_origin() -> None:
    client = client_with(ServerSettings(cors_origins=("*",)))
    headers = client.get("/health", headers={"Origin": "https://b.example"}).headers
    assert headers["Access-Control-Allow-Origin"] == "*"


def test_without_cors_origins_no_cors_header_is_sent(client: FlaskClient) -> None:
    headers = client.get("/health", headers={"Origin": "https://b.example"}).headers
    assert not [name for name, _ in headers if name.startswith("Access-Control")]
