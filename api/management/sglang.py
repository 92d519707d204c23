"""SGLang's routes that load and unload LoRA adapters. Answers and errors have one form, with all adapters.

Entry point: make_blueprint. api/adapters.py loads.
"""

from flask import Blueprint, Response
from msgspec import Struct

from api.adapters import adapter_loader
from api.errors import json_response, render_errors
from api.openai.requests.parse import read_request
from api.openapi.operation import Operation, attach_operation
from inference.errors import BadRequest, ServerError
from inference.models import Models
from settings.groups import ServerSettings


class SglangLoadRequest(Struct):
    """An adapter to load: its name, and its folder below ADAPTER_DIRS or its name on the Hub.

    base_model_name  its model; null: the first one on this machine
    """

    lora_name: str
    lora_path: str
    base_model_name: str | None = None


class SglangUnloadRequest(Struct):
    """An adapter to unload, by its name."""

    lora_name: str


class AdapterUpdate(Struct):
    """The outcome. loaded_adapters: the path of each loaded adapter, by its name."""

    success: bool
    error_message: str | None
    loaded_adapters: dict[str, str]


LOAD = Operation(
    "Load a LoRA adapter, as SGLang does",
    body=SglangLoadRequest,
    response=AdapterUpdate,
    error=AdapterUpdate,
)
UNLOAD = Operation(
    "Unload a LoRA adapter, as SGLang does",
    body=SglangUnloadRequest,
    response=AdapterUpdate,
    error=AdapterUpdate,
)


def make_blueprint(models: Models, settings: ServerSettings) -> Blueprint:
    blueprint = Blueprint("sglang", __name__)
    views = {"/load_lora_adapter": (load, LOAD), "/unload_lora_adapter": (unload, UNLOAD)}
    for path, (view, operation) in views.items():
        blueprint.add_url_rule(path, path, attach_operation(view, operation), methods=["POST"])
    render_errors(blueprint, error_before_start)
    return blueprint


def load() -> Response:
    body, loader = read_request(SglangLoadRequest), adapter_loader()
    if loader.find(body.lora_name):
        raise BadRequest("lora_name", "is the name of a loaded adapter: unload it first", body.lora_name)
    loader.load(body.lora_name, body.lora_path, base_model=body.base_model_name)
    return json_response(200, update())


def unload() -> Response:
    body, loader = read_request(SglangUnloadRequest), adapter_loader()
    if loader.find(body.lora_name) is None:
        raise BadRequest("lora_name", "is not the name of a loaded adapter", body.lora_name)
    loader.unload(body.lora_name)
    return json_response(200, update())


def update(error_message: str | None = None) -> AdapterUpdate:
    adapters = {card.name: card.source for card in adapter_loader().cards()}
    return AdapterUpdate(error_message is None, error_message, adapters)


def error_before_start(error: ServerError) -> tuple[int, AdapterUpdate]:
    """Without the adapters if the key is missing."""
    if error.status in (401, 403):
        return error.status, AdapterUpdate(success=False, error_message=error.message, loaded_adapters={})
    return error.status, update(error.message)
