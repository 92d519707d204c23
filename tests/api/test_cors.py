"""CORS_CREDENTIALS: pages may send cookies, and get their own origin in place of a star."""

import pytest
from flask.testing import FlaskClient

from api import create_app
from settings.groups import ServerSettings
from tests.fake_backend import FakeBackend, make_models, say

PAGE = {"Origin": "https://a.example"}


def client_with(**settings: object) -> FlaskClient:
    return create_app(make_models(FakeBackend(say("a"))), ServerSettings(**settings)).test_client()  # type: ignore[arg-type]


@pytest.mark.parametrize("origins", [("*",), ("https://a.example",)])
def test_a_page_may_send_credentials(origins: tuple[str, ...]) -> None:
    client = client_with(cors_origins=origins, cors_credentials=True)
    preflight = PAGE | {"Access-Control-Request-Method": "POST"}
    for response in (client.get("/health", headers=PAGE), client.options("/health", headers=preflight)):
        assert response.headers["Access-Control-Allow-Origin"] == "https://a.example"
        assert response.headers["Access-Control-Allow-Credentials"] == "true"
        assert "Origin" in response.headers["Vary"]


def test_a_page_of_another_origin_may_send_none() -> None:
    client = client_with(cors_origins=("https://b.example",), cors_credentials=True)
    assert "Access-Control-Allow-Credentials" not in client.get("/health", headers=PAGE).headers


def test_without_the_setting_no_page_may_send_any() -> None:
    headers = client_with(cors_origins=("*",)).get("/health", headers=PAGE).headers
    assert headers["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in headers
