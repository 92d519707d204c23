"""CORS_ORIGINS: whose pages may read answers. CORS_CREDENTIALS: those pages may send cookies."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models, say

PAGE = {"Origin": "https://a.example"}
PREFLIGHT = PAGE | {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
CHAT = {"messages": [{"role": "user", "content": "hi"}]}
NEODIM = {"prompt": "hi", "generated_tokens_count": 2, "max_total_tokens": 64}
REQUESTS = [
    ("/v1/chat/completions", CHAT),
    ("/v1/completions", {"prompt": "hi"}),
    ("/v1/embeddings", {"input": "hi"}),
    ("/v1/responses", {"input": "hi"}),
    ("/inference/chat_completion", CHAT),
    ("/", {"inputs": "hi"}),
    ("/generate_stream", {"inputs": "hi"}),
    ("/generate", {"inputs": "hi"}),
    ("/generate", {"inputs": "hi"} | NEODIM),
    ("/generate", {"inputs": ""}),
    ("/generate", {}),
    ("/tokenize", {"prompt": "hi"} | NEODIM),
]


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


@pytest.mark.parametrize("page", [PAGE, {"Origin": "null"}, {"Origin": "http://localhost:3000"}])
@pytest.mark.parametrize(("path", "body"), REQUESTS)
def test_no_page_may_call_by_default(path: str, body: dict[str, Any], page: dict[str, str]) -> None:
    backend = FakeBackend(say("a"))
    app = create_app(make_models(backend), ServerSettings())
    response = app.test_client().post(path, json=body, headers=page)
    assert response.status_code == 403 and "CORS_ORIGINS" in response.text and not backend.requests
    assert not [name for name, _ in response.headers if name.startswith("Access-Control")]


@pytest.mark.parametrize("path", ["/", "/health", "/metrics", "/v1/models", "/playground", "/nowhere"])
def test_no_page_may_read_or_embed_a_route(path: str) -> None:
    image = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    for headers in (PAGE, PAGE | {"Access-Control-Request-Method": "GET"}, image):
        assert client_with().get(path, headers=headers).status_code == 403


def test_a_link_of_another_page_may_be_followed() -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert client_with().get("/playground", headers=link).status_code in (200, 308)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://localhost:8000", "Host": "localhost:8000"},
        {"Origin": "http://localhost", "Host": "localhost:80"},
        {"Origin": "https://llm.example.com", "Host": "llm.example.com"},
        {"Origin": "https://llm.example.com", "Host": "llm.example.com:443"},
        {"Origin": "https://llm.example.com", "Host": "127.0.0.1:8000", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "http://gpu-box", "Host": "127.0.0.1:8000", "X-Forwarded-Host": "gpu-box"},
        {"Origin": "chrome-extension://abcdefgh"},
        {"Origin": "tauri://localhost"},
    ],
)
def test_pages_of_this_server_and_installed_programs_may_call(headers: dict[str, str]) -> None:
    client = client_with(allowed_hosts=("llm.example.com",))
    assert client.post("/v1/completions", json={"prompt": "hi"}, headers=headers).status_code == 200


def test_a_page_on_another_port_or_name_is_another_page() -> None:
    for origin in (
        "http://localhost:3000",
        "http://127.0.0.1:8000",
        "http://localhost",
        "http://localhost:80",
    ):
        headers = {"Origin": origin, "Host": "localhost:8000"}
        assert client_with().get("/health", headers=headers).status_code == 403, origin


def test_a_page_may_send_no_credentials_to_neodims_path() -> None:
    client = client_with()
    preflight, reply = (
        client.options("/generate", headers=PREFLIGHT),
        client.post("/generate", json=NEODIM, headers=PAGE),
    )
    for response in (preflight, reply):
        assert response.headers["Access-Control-Allow-Origin"] == PAGE["Origin"]
        assert "Access-Control-Allow-Credentials" not in response.headers


@pytest.mark.parametrize(("path", "body"), [*REQUESTS, ("/generate", NEODIM)])
def test_the_pages_of_cors_origins_may_send_and_read_json(path: str, body: dict[str, Any]) -> None:
    client = client_with(cors_origins=("https://a.example",))
    preflight, reply = client.options(path, headers=PREFLIGHT), client.post(path, json=body, headers=PAGE)
    for response in (preflight, reply):
        assert response.headers["Access-Control-Allow-Origin"] == "https://a.example"
    assert "POST" in preflight.headers["Access-Control-Allow-Methods"]
    assert preflight.headers["Access-Control-Allow-Headers"] == "content-type"
    other = client.post(path, json=body, headers={"Origin": "https://b.example"})
    assert "Access-Control-Allow-Origin" not in other.headers


@pytest.mark.parametrize("path", sorted({path for path, _ in REQUESTS} - {"/generate"}))
def test_by_default_no_page_may_send_json(path: str) -> None:
    response = client_with().options(path, headers=PREFLIGHT)
    assert "Access-Control-Allow-Origin" not in response.headers


@pytest.mark.parametrize("body", [NEODIM, NEODIM | {"temperature": -1}, {"max_total_tokens": 5}])
def test_by_default_any_page_may_read_neodims_answers_and_errors(body: dict[str, Any]) -> None:
    client = client_with()
    assert client.options("/generate", headers=PREFLIGHT).headers["Access-Control-Allow-Origin"]
    response = client.post("/generate", json=body, headers=PAGE)
    assert response.headers["Access-Control-Allow-Origin"] == "https://a.example"


def test_a_refused_key_is_not_readable_in_other_forms_than_neodims() -> None:
    client = client_with(api_keys=("secret",))
    for body, readable in (({"inputs": "hi"}, False), (NEODIM, True)):
        response = client.post("/generate", json=body, headers=PAGE)
        assert response.status_code == 401
        assert ("Access-Control-Allow-Origin" in response.headers) == readable
