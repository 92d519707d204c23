"""A request whose Host is a public name is refused, unless ALLOWED_HOSTS lists it or keys are required."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models, say

PRIVATE = [
    "localhost", "localhost:8000", "LOCALHOST", "localhost.", "127.0.0.1:8000", "127.9.9.9", "[::1]:8000",
    "192.168.1.2", "[2001:db8::1]", "gpu-box:8000", "a.localhost", "gpu.local", "host.docker.internal:8000",
    "hearth.default.svc.cluster.local", "hearth.default.svc", "under_score",
]  # fmt: skip
PUBLIC = [
    "evil.example",
    "evil.example:8000",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "local.evil",
]
MALFORMED = ["a b", "a/b", "a@b", "localhost:x", "[::1", "http://localhost", "a,b", "localhost:8000:1", "é"]


def client_with(*allowed_hosts: str, **settings: Any) -> FlaskClient:
    server_settings = ServerSettings(allowed_hosts=allowed_hosts, **settings)
    return create_app(make_models(FakeBackend(say("a"))), server_settings).test_client()


def status(client: FlaskClient, host: str) -> int:
    return client.get("/health/live", headers={"Host": host}).status_code


@pytest.mark.parametrize("host", PRIVATE)
def test_names_that_no_web_page_can_have_are_allowed(host: str) -> None:
    assert status(client_with(), host) == 200


@pytest.mark.parametrize("host", PUBLIC)
def test_public_names_are_refused(host: str) -> None:
    assert status(client_with("llm.example.com"), host) == 403


@pytest.mark.parametrize("host", MALFORMED)
def test_a_malformed_host_is_refused(host: str) -> None:
    assert status(client_with(), host) == 400


@pytest.mark.parametrize("host", ["a" * 64, "a..b.local"])
@pytest.mark.parametrize("allowed_host", ["*", "llm.example.com"])
def test_a_host_that_no_url_can_have_is_refused(host: str, allowed_host: str) -> None:
    client = client_with(allowed_host)
    for path in ("/v1/models", "/no-such-route"):
        response = client.get(path, headers={"Host": host})
        assert (response.status_code, response.mimetype) == (400, "application/json")
        assert ("is not a name" in response.text) == (allowed_host != "*")


@pytest.mark.parametrize("host", ["llm.example.com", "LLM.example.com:443", "llm.example.com."])
def test_a_listed_name_is_allowed(host: str) -> None:
    assert status(client_with("LLM.example.com"), host) == 200
    assert status(client_with("*"), host) == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
        ("/generate", {"inputs": "hi"}),
        ("/generate", {"prompt": "hi", "generated_tokens_count": 2, "max_total_tokens": 64}),
        ("/inference/completion", {"content": "hi"}),
        ("/nowhere", {}),
    ],
)
def test_the_refusal_is_in_the_form_of_the_dialect_and_names_the_setting(path: str, body: object) -> None:
    response = client_with().post(path, json=body, headers={"Host": "evil.example"})
    assert response.status_code == 403 and response.is_json
    assert "'evil.example'" in response.text and "ALLOWED_HOSTS" in response.text


def test_the_name_listened_on_is_allowed() -> None:
    assert status(client_with(host="llm.example.com"), "llm.example.com:8000") == 200


def test_with_keys_any_name_is_allowed_unless_names_are_listed() -> None:
    assert status(client_with(api_keys=("key",)), "llm.example.com") == 200
    assert status(client_with("a.example", api_keys=("key",)), "llm.example.com") == 403


def test_a_request_of_http_1_0_needs_no_host() -> None:
    assert client_with().get("/health/live", environ_overrides={"HTTP_HOST": ""}).status_code == 200
