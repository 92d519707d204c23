"""The route that `transformers chat` calls before its first message, as `transformers serve` answers it.

The chat itself is /v1/chat/completions; api/openai/requests/generation_config.py reads its settings.
"""

from flask import Blueprint, Response
from msgspec import UNSET, Struct, UnsetType

from api.errors import render_errors
from api.openai.errors import error_before_start
from api.openai.protocol.errors import ErrorResponse
from api.openai.requests.parse import read_request
from api.openapi.operation import Operation, attach_operation
from api.response import SSE
from inference.models import Models, UnknownModel
from settings.groups import ServerSettings


class ServedModel(Struct):
    """A model, by one of its names."""

    model: str


class LoadEvent(Struct):
    """Whether requests may name the model.

    status   ready or error
    cached   ready: always true, nothing is loaded for this request
    message  of an error
    """

    status: str
    model: str
    cached: bool | UnsetType = UNSET
    message: str | UnsetType = UNSET


LOAD = Operation(
    "Say whether a model is served, as transformers serve does",
    "One server-sent event. A model that is loaded on demand is loaded by its first answer.",
    ServedModel,
    LoadEvent,
    (SSE.mimetype,),
    error=ErrorResponse,
)


def make_blueprint(models: Models, settings: ServerSettings) -> Blueprint:
    blueprint = Blueprint("transformers_serve", __name__)

    def load() -> Response:
        return Response(
            SSE.encode(load_event(models, read_request(ServedModel).model)), mimetype=SSE.mimetype
        )

    blueprint.add_url_rule("/load_model", "load", attach_operation(load, LOAD), methods=["POST"])
    render_errors(blueprint, error_before_start)
    return blueprint


def load_event(models: Models, name: str) -> LoadEvent:
    try:
        models.resolve(name)
    except UnknownModel as error:
        return LoadEvent("error", name, message=error.message)
    return LoadEvent("ready", name, cached=True)
