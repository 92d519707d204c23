"""README.md and docs/: links have targets, routes exist and are described, pages are in the index."""

import contextlib
import re
from pathlib import Path

import pytest
from flask import Flask
from werkzeug.exceptions import HTTPException

from api import create_app
from inference.metrics import Metrics
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
    *sorted(DOCS.rglob("*.md")),
]
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
ROUTE = re.compile(r"`(GET|POST|PUT|DELETE) (/[^`\s]*)`")
CALL = re.compile(r"http://127\.0\.0\.1:8000(/[\w./-]*)")
PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
SOURCE = re.compile(r"`((?:api|checks|hub|inference|models|scripts|settings|tests)/[\w./-]*|\w+\.py)`")
MODULE = re.compile(r"python -m (scripts[\w.]*)")
CELL_END = re.compile(r"(?<!\\)\|")
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
MAX_README_LINES = 200
LONG_PAGE_LINES = 400


def relative_path(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def make_anchor(heading: str) -> str:
    """The anchor that GitHub makes for a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.fixture(scope="module")
def app() -> Flask:
    return create_app(make_models(FakeBackend()), ServerSettings(), Metrics())


def find_described_routes() -> set[tuple[str, str]]:
    """Method and path of every route that a page mentions."""
    return {(method, path) for page in PAGES for method, path in ROUTE.findall(page.read_text())}


def find_existing_routes(app: Flask) -> set[tuple[str, str]]:
    return {
        (method, PARAMETER.sub(r"{\1}", rule.rule))
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }


@pytest.mark.parametrize("page", PAGES, ids=relative_path)
def test_every_relative_link_and_image_exists(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if "://" in target:
            continue
        name, _, fragment = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.is_file() and path.is_relative_to(ROOT), f"{target} does not exist"
        if fragment:
            anchors = [make_anchor(heading) for heading in HEADING.findall(path.read_text())]
            assert fragment in anchors, f"{target}: {path.name} has no such heading"


def test_every_file_folder_and_command_exists() -> None:
    texts = [page.read_text() for page in PAGES if page.name != "CHANGELOG.md"]  # which has former names
    files = {name for text in texts for name in SOURCE.findall(text)}
    modules = {name.replace(".", "/") for text in texts for name in MODULE.findall(text)}
    assert files and {name for name in files if not (ROOT / name).exists()} == set()
    assert {name for name in modules if not (ROOT / name / "__main__.py").exists()} - {
        name for name in modules if (ROOT / f"{name}.py").exists()
    } == set()


def test_every_page_is_in_the_index() -> None:
    targets = set(LINK.findall((DOCS / "README.md").read_text()))
    assert {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"README.md"} <= targets


def test_every_image_is_shown_on_a_page() -> None:
    targets = {(page.parent / link).resolve() for page in PAGES for link in LINK.findall(page.read_text())}
    images = {path for path in DOCS.rglob("*") if path.suffix in (".png", ".svg")}
    assert images and images <= targets


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= MAX_README_LINES


def test_a_long_page_lists_its_sections() -> None:
    texts = [page.read_text() for page in DOCS.rglob("*.md")]
    long_texts = [text for text in texts if len(text.splitlines()) > LONG_PAGE_LINES]
    assert long_texts
    for text in long_texts:
        assert [f"#{make_anchor(each)}" for each in SECTION.findall(text)] == LINK.findall(
            text.split("\n## ")[0]
        )


@pytest.mark.parametrize("page", PAGES, ids=relative_path)
def test_every_row_of_a_table_has_the_columns_of_its_head(page: Path) -> None:
    """A | within a cell would begin another one, also in code: it is written as \\|."""
    num_columns = 0
    for row in page.read_text().splitlines():
        if not row.lstrip().startswith("|"):
            num_columns = 0
            continue
        num_cells = len(CELL_END.findall(row)) - 1
        num_columns = num_columns or num_cells
        assert num_cells == num_columns, row


@pytest.mark.parametrize("page", PAGES[3:], ids=relative_path)
def test_a_page_begins_with_a_title_and_its_subject(page: Path) -> None:
    title, subject, *_ = page.read_text().split("\n\n")
    assert re.fullmatch("# .+", title) and not subject.startswith(("#", "|", "-", "!"))


def test_every_route_in_the_docs_exists(app: Flask) -> None:
    assert len(find_described_routes()) > 80
    assert find_described_routes() - find_existing_routes(app) == set()


def test_the_docs_name_every_route(app: Flask) -> None:
    files = {
        "/playground/{name}",
        "/tuning/{name}",
        "/docs/{name}",
        "/docs/",
    }  # of pages, which no client calls
    docs = {f"/{relative_path(path)}" for path in [*PAGES, *DOCS.rglob("*")] if path.is_file()}
    silent = find_existing_routes(app) - find_described_routes()
    assert {route for route in silent if route[1] not in files | docs} == set()


def test_every_url_in_the_docs_is_served(app: Flask) -> None:
    paths = {path for page in PAGES for path in CALL.findall(page.read_text())}
    urls = app.url_map.bind("127.0.0.1")

    def is_served(path: str) -> bool:
        with contextlib.suppress(HTTPException):
            return bool(urls.match(path, "GET"))
        with contextlib.suppress(HTTPException):
            return bool(urls.match(path, "POST"))
        return False

    assert len(paths) > 8
    assert {path for path in paths if not is_served(path)} == {"/v1"}  # the base URL of OpenAI's clients
