"""llama.cpp's routes that load and unload models of this machine. GET /v1/models has each model's status.

Entry point: make_blueprint. inference/on_demand/ loads.
"""

from collections.abc import Callable
from typing import Protocol

from flask import Blueprint, Flask, Response, current_app
from msgspec import Struct

from api.errors import json_response, render_errors
from api.management.llama_cpp import error_before_start
from api.openai.requests.parse import read_request
from api.openapi.operation import Operation, attach_operation
from inference.errors import NotFound
from inference.models import Models
from settings.groups import ServerSettings

LOADER = "model_loader"  # key in app.extensions: what loads models, or None


class ModelLoading(Protocol):
    """Loads and unloads models. Both methods return at once, and raise NotFound for a model that stays."""

    def load(self, name: str) -> None: ...

    def unload(self, name: str) -> None:
        """Its running answers end first."""
        ...


class ModelName(Struct):
    """A model, by one of its names."""

    model: str


class LoadingResponse(Struct):
    success: bool = True


LOAD = Operation(
    "Load a model, as llama.cpp does",
    "Answers at once: the model's status in /v1/models is loading, then loaded. Others may leave to make "
    "room; a model that is loaded stays so.",
    body=ModelName,
    response=LoadingResponse,
)
UNLOAD = Operation(
    "Unload a model, as llama.cpp does",
    "Answers at once. Running answers end first. The next request loads the model again.",
    body=ModelName,
    response=LoadingResponse,
)


def make_blueprint(models: Models, settings: ServerSettings) -> Blueprint:
    blueprint = Blueprint("model_loading", __name__)

    def load() -> Response:
        return act(models, model_loader().load)

    def unload() -> Response:
        return act(models, model_loader().unload)

    blueprint.add_url_rule("/models/load", "load", attach_operation(load, LOAD), methods=["POST"])
    blueprint.add_url_rule("/models/unload", "unload", attach_operation(unload, UNLOAD), methods=["POST"])
    render_errors(blueprint, error_before_start)
    return blueprint


def act(models: Models, action: Callable[[str], None]) -> Response:
    action(models.resolve(read_request(ModelName).model).backend.info().id)
    return json_response(200, LoadingResponse())


def install(app: Flask, loader: ModelLoading | None) -> None:
    app.extensions[LOADER] = loader


def model_loader() -> ModelLoading:
    """The running app's loader. Raises NotFound if its models are never unloaded."""
    loader: ModelLoading | None = current_app.extensions[LOADER]
    if loader is None:
        raise NotFound("no model of this server is loaded on demand: MODELS has at most one on this machine")
    return loader
