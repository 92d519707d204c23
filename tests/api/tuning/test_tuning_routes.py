"""The files of the page /tuning: each is linked, loads nothing from other sites, and needs no key."""

import re
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from api import create_app
from api.static_pages import StaticFiles
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models

FOLDER = Path(__file__).parents[3] / "api/tuning"
NAMES = sorted(StaticFiles(FOLDER).files)
MAX_LINES = 200


@pytest.fixture
def client() -> FlaskClient:
    return create_app(make_models(FakeBackend()), ServerSettings(api_keys=("secret",))).test_client()


def linked_files(name: str) -> set[str]:
    """Paths on the server of the files that a file loads."""
    text = (FOLDER / name).read_text()
    if name.endswith(".html"):
        return set(re.findall(r'(?:href|src)="((?:tuning|playground)/[^"]+)"', text))
    modules = re.findall(r'(?:from|import) "(\.[^"]+)"', text) if name.endswith(".js") else []
    folder = (FOLDER / name).parent
    return {(folder / module).resolve().relative_to(FOLDER.parent).as_posix() for module in modules}


def test_the_page_and_its_files_load_without_a_key(client: FlaskClient) -> None:
    assert client.get("/tuning").data == (FOLDER / "index.html").read_bytes()
    for name in NAMES:
        if name != "index.html":
            response = client.get(f"/tuning/{name}")
            assert response.status_code == 200
            assert "unsafe" not in response.headers["Content-Security-Policy"]


def test_every_file_is_linked_and_every_link_exists(client: FlaskClient) -> None:
    links = set().union(*map(linked_files, NAMES))
    assert {f"tuning/{name}" for name in NAMES} - links == {"tuning/index.html"}
    assert [link for link in links if client.get(f"/{link}").status_code != 200] == []


@pytest.mark.parametrize("path", ["/tuning/nothing.js", "/tuning/__init__.py", "/tuning/..%2fapi_keys.py"])
def test_nothing_else_is_sent(client: FlaskClient, path: str) -> None:
    assert client.get(path, headers={"Authorization": "Bearer secret"}).status_code == 404


@pytest.mark.parametrize("name", NAMES)
def test_no_file_names_another_site(name: str) -> None:
    text = (FOLDER / name).read_text().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://(?!\$)|[\"'(]//\w", text)


def test_no_module_is_long() -> None:
    assert [name for name in NAMES if (FOLDER / name).read_text().count("\n") > MAX_LINES] == []
