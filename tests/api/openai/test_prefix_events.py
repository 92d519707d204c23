"""The route that tells a server in front which prompts this one has got."""

import pytest
from flask.testing import FlaskClient

from api import create_app
from inference.prefix_blocks import block_hashes
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models

PATH = "/v1/prefix_events"
KEY = {"Authorization": "Bearer secret"}
TEXT = "why? " * 100
CHAT = {"messages": [{"role": "user", "content": TEXT}]}


@pytest.fixture
def client() -> FlaskClient:
    return create_app(make_models(FakeBackend()), ServerSettings(api_keys=("secret", "other"))).test_client()


def test_chats_and_texts_are_listed_once(client: FlaskClient) -> None:
    assert client.get(PATH, headers=KEY).json == {"last": 0, "prompts": []}
    client.post("/v1/chat/completions", json=CHAT, headers=KEY)
    client.post("/v1/completions", json={"prompt": TEXT}, headers=KEY)
    expected = [list(block_hashes(text.encode())) for text in (f"user\n{TEXT}", TEXT)]
    assert client.get(PATH, headers=KEY).json == {"last": 2, "prompts": expected}
    assert client.get(f"{PATH}?after=2", headers=KEY).json == {"last": 2, "prompts": []}


def test_prompts_of_another_key_are_not_listed(client: FlaskClient) -> None:
    other = {"Authorization": "Bearer other"}
    assert client.get(PATH, headers=KEY).json == client.get(PATH, headers=other).json
    client.post("/v1/chat/completions", json=CHAT, headers=other)
    assert client.get(PATH, headers=KEY).json == {"last": 0, "prompts": []}
    assert (client.get(PATH, headers=other).json or {})["last"] == 1


def test_the_list_needs_a_key(client: FlaskClient) -> None:
    assert client.get(PATH).status_code == 401


@pytest.mark.parametrize("after", ["-1", "x", "9" * 30])
def test_another_number_is_refused(after: str, client: FlaskClient) -> None:
    response = client.get(f"{PATH}?after={after}", headers=KEY)
    assert response.status_code == 400 and response.json is not None
    assert "after must be the number of a prompt" in response.json["error"]["message"]
