"""The OpenAPI document, and the page /docs that shows it. Entry point: make_blueprint.

Knows which routes to show first and the texts of the tags. Each route has its own Operation (operation.py).
"""

from functools import cache, partial
from pathlib import Path
from typing import Any

from flask import Blueprint, Response, current_app

from api.errors import json_response
from api.openapi.document import REFUSALS, Tag, document
from api.openapi.operation import Operation, attach_operation
from api.static_pages import StaticFiles
from inference.models import Models
from settings.groups import ServerSettings

DESCRIPTION = (
    "Models served with these APIs: OpenAI (with vLLM's extensions), Llama Stack, Text Generation Inference, "
    "Neodim and Tinker. This document is generated from the code of the routes."
)
TAGS = {
    "openai": Tag(
        "OpenAI", "Chat, completions, responses, embeddings and models, as OpenAI and vLLM serve them."
    ),
    "llama_stack": Tag(
        "Llama Stack", "Inference, embeddings, models and server information for clients of all its versions."
    ),
    "tgi": Tag("Text Generation Inference", "Generation and server information, as TGI serves them."),
    "llama_cpp": Tag("llama.cpp", "The scales of LoRA adapters, as llama.cpp has them."),
    "model_loading": Tag(
        "Models on demand", "Loads and unloads models of this machine, as llama.cpp's router does."
    ),
    "sleep_mode": Tag("Sleep mode", "Gives the memory of the model back for a while, as vLLM does."),
    "h2ogpt": Tag("h2oGPT", "The system information that h2oGPT has under this name."),
    "sglang": Tag("SGLang", "LoRA adapters, as SGLang loads and unloads them."),
    "transformers_serve": Tag("transformers", "What `transformers chat` asks before it chats."),
    "neodim": Tag("Neodim", "Neodim's own route is POST /generate, listed under Shared paths."),
    "tinker": Tag("Tinker", "Training runs whose loop, losses and rewards are in the client."),
    "shared": Tag("Shared paths", "Paths that two of the APIs have. The fields of the body select the API."),
    "ops": Tag("Server", "Health, readiness, version, metrics and the index of all routes."),
    "playground": Tag("Playground", "The data that the page /playground displays."),
    "openapi": Tag("Documentation", "This document."),
    REFUSALS: Tag("Not supported", "Known paths that return an error with the reason to every request."),
}
FIRST_PATHS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/inference/chat-completion",
    "/v1/inference/completion",
    "/inference/chat_completion",
    "/inference/completion",
    "/generate",
    "/generate_stream",
    "/",
    "/v1/embeddings",
    "/v1/inference/embeddings",
    "/inference/embeddings",
    "/v1/models",
    "/v1/models/<path:name>",
)
PAGE = "docs.html"
DOCUMENT = Operation("Show this document, as OpenAPI 3.1")


def make_blueprint(models: Models, settings: ServerSettings) -> Blueprint:
    blueprint = Blueprint("openapi", __name__)

    @cache
    def cached_document() -> dict[str, Any]:
        """Built at the first request: by then, all routes are registered."""
        return document(current_app, "Hearth", settings.version, DESCRIPTION, TAGS, FIRST_PATHS)

    def send() -> Response:
        return json_response(200, cached_document())

    page = StaticFiles(Path(__file__).parent / "page")
    view, docs_view = attach_operation(send, DOCUMENT), partial(page.send_page, PAGE)
    for path in ("/openapi.json", "/api-doc/openapi.json"):
        blueprint.add_url_rule(path, "document", view)
    for path in ("/docs", "/docs/"):
        blueprint.add_url_rule(path, "docs", docs_view)
    blueprint.add_url_rule("/docs/<name>", "file", page.send)
    return blueprint
