"""ROOT_PATH: requests with the prefix of a reverse proxy are answered like those without it."""

import pytest
from flask.testing import FlaskClient

from api import create_app
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models, say


@pytest.fixture
def client() -> FlaskClient:
    settings = ServerSettings(root_path="/team/llm", api_keys=("key",))
    return create_app(make_models(FakeBackend(say("a"))), settings).test_client()


@pytest.mark.parametrize("path", ["/health", "/team/llm/health", "/team/llm/", "/team/llm"])
def test_both_forms_of_a_path_are_answered(client: FlaskClient, path: str) -> None:
    assert client.get(path).status_code == 200


def test_a_stream_passes(client: FlaskClient) -> None:
    body = {"model": "", "prompt": "x", "stream": True}
    response = client.post("/team/llm/v1/completions", json=body, headers={"X-Api-Key": "key"})
    assert response.status_code == 200 and response.text.endswith("data: [DONE]\n\n")


def test_the_prefix_opens_no_path_without_a_key(client: FlaskClient) -> None:
    for path in ("/v1/models", "/team/llm/v1/models"):
        assert client.get(path).status_code == 401
        assert client.get(path, headers={"X-Api-Key": "key"}).status_code == 200


@pytest.mark.parametrize("path", ["/team/llmhealth", "/team/health", "/team/llm/team/llm/health"])
def test_other_paths_stay_unknown(client: FlaskClient, path: str) -> None:
    assert client.get(path, headers={"X-Api-Key": "key"}).status_code == 404
