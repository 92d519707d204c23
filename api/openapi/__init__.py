"""The API's own documentation: the OpenAPI document, and a page that shows it. One door: routes."""

from functools import cache
from pathlib import Path
from typing import Any

from flask import Blueprint, Response, current_app, request

from api.errors import reply
from api.files import Files
from api.openapi.document import document
from api.operation import Operation, described
from api.settings import AppSettings
from inference.backend import Backend

ABOUT = (
    "One model in four dialects: Llama Stack, OpenAI (and vLLM), Text Generation Inference and Neodim. "
    "Every route below is told by the code that answers it. Fields that are not listed are ignored."
)
TAGS = {
    "openai": "OpenAI",
    "llama_stack": "Llama Stack",
    "tgi": "Text Generation Inference",
    "neodim": "Neodim",
    "shared": "Paths of two dialects",
    "ops": "Server",
    "openapi": "Documentation",
    "playground": "Playground",
}
PAGE = "docs.html"
DOCUMENT = Operation("This document, as OpenAPI 3.1")


def routes(backend: Backend, settings: AppSettings) -> Blueprint:
    blueprint = Blueprint("openapi", __name__)

    @cache
    def told() -> dict[str, Any]:
        """Made once, when all routes are there."""
        return document(current_app, "Hearth", settings.version, ABOUT, TAGS)

    def send() -> Response:
        return reply(200, told())

    def show() -> Response:
        if request.path.endswith("/"):  # the page's links begin where it stands
            return Response(status=302, headers={"Location": "../docs"})
        return page.send(PAGE)

    page = Files(Path(__file__).parent / "page")
    view = described(send, DOCUMENT)
    for path in ("/openapi.json", "/api-doc/openapi.json"):
        blueprint.add_url_rule(path, "document", view)
    for path in ("/docs", "/docs/"):
        blueprint.add_url_rule(path, "docs", show)
    blueprint.add_url_rule("/docs/<name>", "file", page.send)
    return blueprint
