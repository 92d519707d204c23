"""The documentation as the server sends it: README.md, the files of docs/, and /llms.txt."""

import re
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from api import create_app
from api.doc_pages import find_doc_files
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models

ROOT = Path(__file__).parents[2]
NAMES = find_doc_files(ROOT)
KINDS = {".md": "text/markdown", ".svg": "image/svg+xml", ".png": "image/png"}


@pytest.fixture(scope="module")
def client() -> FlaskClient:
    return create_app(make_models(FakeBackend()), ServerSettings()).test_client()


@pytest.mark.parametrize("name", NAMES)
def test_each_file_is_sent_unchanged(client: FlaskClient, name: str) -> None:
    response = client.get(f"/{name}")
    assert response.status_code == 200 and response.mimetype == KINDS[Path(name).suffix]
    assert response.data == (ROOT / name).read_bytes()
    assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_readme_and_the_pages_of_docs_are_served() -> None:
    assert {"README.md", "docs/README.md", "docs/settings.md", "docs/dialects/openai.md"} <= set(NAMES)


@pytest.mark.parametrize(
    "path",
    [
        "/docs/../config.py",
        "/docs/%2e%2e/config.py",
        "/docs/..%2fconfig.py",
        "/docs/dialects/../../config.py",
        "/docs//settings.md",
        "/docs/none.md",
        "/docs/dialects",
        "/config.py",
        "/CHANGELOG.md",
        "/models/demo/README.md",
    ],
)
def test_no_other_file_can_be_reached(client: FlaskClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_the_api_page_at_docs_still_has_its_files(client: FlaskClient) -> None:
    assert client.get("/docs/docs.js").mimetype == "text/javascript"


def test_a_cached_file_is_not_sent_again(client: FlaskClient) -> None:
    etag = client.get("/docs/settings.md").headers["ETag"]
    response = client.get("/docs/settings.md", headers={"If-None-Match": etag})
    assert (response.status_code, response.data) == (304, b"")


def test_the_documentation_needs_no_key() -> None:
    client = create_app(make_models(FakeBackend()), ServerSettings(api_keys=("secret",))).test_client()
    paths = ["/llms.txt", *(f"/{name}" for name in NAMES)]
    assert {client.get(path).status_code for path in paths} == {200}
    assert client.get("/v1/models").status_code == 401


def test_the_index_has_the_form_of_llms_txt(client: FlaskClient) -> None:
    response = client.get("/llms.txt")
    lines = response.text.splitlines()
    assert response.mimetype == "text/plain"
    assert lines[0] == "# Hearth" and lines[2].startswith("> ") and len(lines[2]) > 40
    assert [line for line in lines if line.startswith("## ")] == ["## Docs", "## Optional"]
    links = [line for line in lines if line.startswith("-")]
    assert links and all(re.fullmatch(r"- \[[^\]]+\]\([^)]+\): .+\.", line) for line in links)


def test_the_index_has_every_page_and_each_link_leads_to_one(client: FlaskClient) -> None:
    targets = re.findall(r"\]\(([^)]+)\)", client.get("/llms.txt").text)
    pages = {name for name in NAMES if name.endswith(".md")} - {"docs/README.md"}
    assert set(targets) == pages | {"openapi.json"} and len(targets) == len(set(targets))
    assert {client.get(f"/{target}").status_code for target in targets} == {200}
