"""The playground's routes: the page and its files, their headers, and the machine's figures."""

import re
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from api import create_app
from api.static_pages import StaticFiles
from inference.backend_info import BackendLoad, Device
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models

FOLDER = Path(__file__).parents[3] / "api/playground"
NAMES = sorted(StaticFiles(FOLDER).files)


class BusyBackend(FakeBackend):
    def current_load(self) -> BackendLoad:
        return BackendLoad(
            running=2, waiting=1, kv_usage=0.25, devices=(Device("GPU", 8 << 30, 2 << 30, 5 << 30, 4 << 30),)
        )


def client_with(settings: ServerSettings) -> FlaskClient:
    return create_app(make_models(BusyBackend()), settings).test_client()


@pytest.fixture
def client() -> FlaskClient:
    return client_with(ServerSettings())


def test_the_page_is_html(client: FlaskClient) -> None:
    response = client.get("/playground")
    assert (response.status_code, response.content_type) == (200, "text/html; charset=utf-8")
    assert response.data == (FOLDER / "index.html").read_bytes()


def test_a_trailing_slash_redirects_to_the_page(client: FlaskClient) -> None:
    response = client.get("/playground/")
    assert (response.status_code, response.location) == (302, "../playground")


def test_the_name_of_neodims_playground_leads_to_the_page() -> None:
    response = client_with(ServerSettings(api_keys=("secret",))).get("/playground.html")
    assert (response.status_code, response.location) == (302, "playground")


@pytest.mark.parametrize("name", NAMES)
def test_each_file_has_its_type_and_the_headers(client: FlaskClient, name: str) -> None:
    response = client.get(f"/playground/{name}")
    kinds = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    assert response.status_code == 200 and response.mimetype == kinds[name.rpartition(".")[2]]
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Cache-Control"] == "no-cache"
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    assert "unsafe" not in response.headers["Content-Security-Policy"]


def test_a_cached_file_is_not_sent_again(client: FlaskClient) -> None:
    etag = client.get("/playground").headers["ETag"]
    response = client.get("/playground", headers={"If-None-Match": etag})
    assert (response.status_code, response.data) == (304, b"")
    assert client.get("/playground", headers={"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "nothing.js",
        "__init__.py",
        "../errors.py",
        "../api_keys.py",
        "%2e%2e/api_keys.py",
        "..%2fapi_keys.py",
        "/etc/passwd",
        ".",
    ],
)
def test_paths_outside_of_the_page_are_not_found(client: FlaskClient, path: str) -> None:
    response = client.get(f"/playground/{path}")
    assert (response.status_code, response.is_json) == (404, True)
    assert "error" in response.json


def test_every_file_that_is_named_is_there() -> None:
    """Modules import files that exist, the page links files that exist, and every file is used."""
    links = {link for name in NAMES for link in linked_files(name)}
    assert links - set(NAMES) == set()
    assert set(NAMES) - links == {"index.html"}


def linked_files(name: str) -> set[str]:
    """The files that a file loads, as paths from the page's folder."""
    text = (FOLDER / name).read_text()
    if name.endswith(".html"):
        return set(re.findall(r'(?:href|src)="playground/([^"]+)"', text))
    if not name.endswith(".js"):
        return set()
    modules = re.findall(r'(?:from|import) "(\.[^"]+)"', text)
    return {
        (FOLDER / name).parent.joinpath(module).resolve().relative_to(FOLDER).as_posix() for module in modules
    }


@pytest.mark.parametrize("name", NAMES)
def test_no_file_names_another_site(name: str) -> None:
    text = (FOLDER / name).read_text().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://(?!\$)|[\"'(]//\w", text)


def test_no_module_is_long() -> None:
    assert {name for name in NAMES if (FOLDER / name).read_text().count("\n") > 200} == set()


def test_the_status_reports_load_and_memory(client: FlaskClient) -> None:
    response = client.get("/playground/status")
    body = response.json
    assert response.headers["Cache-Control"] == "no-store"
    assert (body["model"], body["context"], body["running"], body["waiting"]) == ("fake/model", 128, 2, 1)
    assert 0 < body["ram"]["own"] < body["ram"]["total"] and 0 < body["ram"]["free"] < body["ram"]["total"]
    assert body["devices"] == [
        {"name": "GPU", "total": 8 << 30, "free": 2 << 30, "reserved": 5 << 30, "allocated": 4 << 30}
    ]


def test_the_page_loads_without_a_key() -> None:
    client = client_with(ServerSettings(api_keys=("secret",)))
    for path in (
        "/playground",
        "/playground/",
        *(f"/playground/{name}" for name in NAMES if name != "index.html"),
    ):
        assert client.get(path).status_code in (200, 302), path


@pytest.mark.parametrize("path", ["/playground/status", "/playground/x", "/v1/models", "/x/playground/a.js"])
def test_requests_of_the_page_need_the_key(path: str) -> None:
    client = client_with(ServerSettings(api_keys=("secret",)))
    assert client.get(path).status_code == 401
    assert client.get(path, headers={"Authorization": "Bearer secret"}).status_code in (200, 404)


def test_the_page_accepts_no_post_without_a_key() -> None:
    assert client_with(ServerSettings(api_keys=("secret",))).post("/playground").status_code == 401
