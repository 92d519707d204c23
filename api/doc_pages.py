"""Serves README.md and docs/ under their own paths, and /llms.txt, an index of them.

The files are read at startup. A request's path is only looked up among their names.
"""

from pathlib import Path

from flask import Blueprint, Response, request

from api.static_pages import CONTENT_TYPES, HEADERS, StaticFiles
from inference.models import Models
from settings.groups import ServerSettings

HOME = Path(__file__).resolve().parent.parent
README = "README.md"
INDEX = "docs/README.md"

OPTIONAL_LINKS = """\
- [README](README.md): what Hearth is, how to start it, and a call in each dialect.
- [OpenAPI document](openapi.json): every route with its fields."""


def make_blueprint(models: Models, settings: ServerSettings) -> Blueprint:
    blueprint = Blueprint("doc_pages", __name__)
    files = StaticFiles(HOME, find_doc_files(HOME))
    index = make_llms_txt(HOME)

    def send_page() -> Response:
        return files.send(request.path.strip("/"))

    def send_index() -> Response:
        return Response(index, headers=HEADERS, content_type=CONTENT_TYPES[".txt"])

    for name in files.files:
        blueprint.add_url_rule(f"/{name}", "page", send_page)
    blueprint.add_url_rule("/llms.txt", "index", send_index)
    return blueprint


def find_doc_files(home: Path) -> list[str]:
    """README.md and every file below docs/, as paths relative to `home`."""
    paths = [home / README, *sorted((home / "docs").rglob("*"))]
    return [path.relative_to(home).as_posix() for path in paths if path.is_file()]


def make_llms_txt(home: Path) -> str:
    """The index in the format of https://llmstxt.org: title, summary, one link per page in INDEX."""
    title, summary, *_ = [*read_text(home / README).split("\n\n"), "", ""]
    pages = [line for line in read_text(home / INDEX).splitlines() if line.startswith("- ")]
    links = [line.replace("](", "](docs/") for line in pages]
    quote = f"> {' '.join(summary.split())}"
    return "\n\n".join((title, quote, "## Docs", "\n".join(links), "## Optional", OPTIONAL_LINKS)) + "\n"


def read_text(path: Path) -> str:
    """The text of a file; empty if the file does not exist."""
    return path.read_text("utf-8") if path.is_file() else ""
