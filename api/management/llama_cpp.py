"""llama.cpp's routes for LoRA adapters: their list, and the scales of requests that name none.

Entry point: make_blueprint. api/hooks/adapter_sums.py has the sums.
"""

from functools import partial
from typing import Any

from flask import Blueprint, Response
from msgspec import Struct

from api.errors import json_response, render_errors
from api.hooks.adapter_sums import AdapterScale, adapter_sums, parse_scales
from api.openai.requests.parse import read_request
from api.openapi.operation import Operation, attach_operation
from inference.errors import ServerError
from inference.models import Models
from inference.served import listed_adapters
from settings.groups import ServerSettings

PATH = "/lora-adapters"
INVALID, SERVER_ERROR = "invalid_request_error", "server_error"


class ListedAdapter(Struct):
    """An adapter. scale: in requests that name no adapter."""

    id: int
    name: str
    path: str
    scale: float


class ScalesResponse(Struct):
    success: bool = True


LIST = Operation("List the LoRA adapters, as llama.cpp does", response=list[ListedAdapter])
SET_SCALES = Operation(
    "Set the scales of the LoRA adapters in requests that name none, as llama.cpp does",
    "They count in completions and chats of /v1 whose model is no adapter. An adapter that the list leaves "
    "out gets the scale 0.",
    body=list[AdapterScale],
    response=ScalesResponse,
)


def make_blueprint(models: Models, settings: ServerSettings) -> Blueprint:
    blueprint = Blueprint("llama_cpp", __name__)
    list_view = attach_operation(partial(list_adapters, models), LIST)
    set_view = attach_operation(partial(set_scales, models), SET_SCALES)
    blueprint.add_url_rule(PATH, "list", list_view, methods=["GET"])
    blueprint.add_url_rule(PATH, "set", set_view, methods=["POST"])
    render_errors(blueprint, error_before_start)
    return blueprint


def list_adapters(models: Models) -> Response:
    scales = adapter_sums().default_scales
    cards = enumerate(listed_adapters(models.own.backend))
    listed = [ListedAdapter(id, card.name, card.source, scales.get(card.name, 0.0)) for id, card in cards]
    return json_response(200, listed)


def set_scales(models: Models) -> Response:
    served, sums = models.own, adapter_sums()
    scales = parse_scales(served, read_request(list[AdapterScale]), "")
    sums.with_sum(served, scales)  # refuses here what requests could not be answered with
    sums.default_scales = {card.name: scale for card, scale in scales.items() if scale}
    return json_response(200, ScalesResponse())


def error_before_start(error: ServerError) -> tuple[int, dict[str, Any]]:
    type = INVALID if error.status < 500 else SERVER_ERROR
    return error.status, {"error": {"code": error.status, "message": error.message, "type": type}}
