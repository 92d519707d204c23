"""The playground: a page at /playground to try the model. Entry point: make_blueprint.

The files of this folder are sent unchanged. The page calls the dialects' routes as any client does, and its
own route /playground/status for load and memory. The Content-Security-Policy blocks other sites.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
from flask import Blueprint, Response, request

from api.errors import json_response
from api.model_card import model_states
from api.openapi.operation import Operation, attach_operation
from api.static_pages import StaticFiles
from inference.backend import Backend
from inference.models import Models
from settings.groups import ServerSettings

PAGE = "index.html"
PATH = "playground"  # relative, for a server behind a path prefix
STATUS = Operation(
    "Show a model's load and the memory for the playground",
    query={"model": "its name; left out: the default model"},
)


def make_blueprint(models: Models, settings: ServerSettings) -> Blueprint:
    blueprint = Blueprint("playground", __name__)
    files = StaticFiles(Path(__file__).parent)

    @blueprint.get("/playground")
    def page() -> Response:
        return files.send_page(PAGE)

    @blueprint.get("/playground/<path:name>")
    def file(name: str) -> Response:
        return files.send(name)

    @blueprint.get("/playground.html")
    def neodims_page() -> Response:
        """Neodim's playground is the file playground.html."""
        return Response(status=302, headers={"Location": PATH})

    def status_view() -> Response:
        served = models.resolve(request.args.get("model"))
        response = json_response(200, status(served.backend) | {"models": model_states(models)})
        response.headers["Cache-Control"] = "no-store"
        return response

    blueprint.add_url_rule("/playground/status", "status", attach_operation(status_view, STATUS))
    return blueprint


def status(backend: Backend) -> dict[str, Any]:
    """A model, its load, and the memory. Sizes are in bytes.

    chat     why the model's own chat template is not used (ModelInfo.chat_fallback_reason); empty if it is
    context  tokens of prompt and answer together; null: unknown
    used     share of the KV cache in use, 0 to 1
    ram      `own` is the resident memory of this process
    """
    info, load, memory = backend.info(), backend.current_load(), psutil.virtual_memory()
    own = psutil.Process().memory_info().rss
    return {
        "model": info.id,
        "context": info.context,
        "chat": info.chat_fallback_reason,
        "running": load.running,
        "waiting": load.waiting,
        "used": load.kv_usage,
        "ram": {"total": memory.total, "free": memory.available, "own": own},
        "devices": [asdict(device) for device in load.devices],
    }
