"""GET /tokenizer_info: what clients need that tokenize and render chats as the server does."""

from flask.testing import FlaskClient

from api import create_app
from settings.groups import ServerSettings
from tests.api.openai.app_requests import refusal
from tests.fakes.fake_backend import FakeBackend, make_models


def test_the_tokenizer_is_described(client: FlaskClient) -> None:
    expected = {"tokenizer_class": "FakeTokenizer", "eos_token": "</s>"}
    assert client.get("/tokenizer_info").get_json() == expected
    assert client.get("/tokenizer_info?model=fake/model").get_json() == expected
    unknown = client.get("/tokenizer_info?model=nope")
    refusal(unknown, 404, "The model `nope` does not exist.", "NotFoundError", "not_found")


def test_the_tokenizer_is_described_to_clients_with_a_key() -> None:
    """Chat templates can be private."""
    guarded = create_app(make_models(FakeBackend()), ServerSettings(api_keys=("key",))).test_client()
    assert guarded.get("/tokenizer_info").status_code == 401
    assert guarded.get("/tokenizer_info", headers={"Authorization": "Bearer key"}).status_code == 200
