"""The Llama Stack dialect: one blueprint with every generation of its protocol. One door: routes."""

from flask import Blueprint, Response

from api.errors import reply
from api.llama_stack import embeddings, inference, neighbours, registry
from api.llama_stack.errors import failed
from api.llama_stack.generation import GENERATIONS, Generation
from api.settings import AppSettings
from inference.backend import Backend
from inference.errors import ServerError


def routes(backend: Backend, settings: AppSettings) -> Blueprint:
    blueprint = Blueprint("llama_stack", __name__)
    for generation in GENERATIONS:
        blueprint.register_blueprint(_generation(generation, backend, settings))
    return blueprint


def _generation(generation: Generation, backend: Backend, settings: AppSettings) -> Blueprint:
    blueprint = Blueprint(generation.name, __name__, url_prefix=generation.prefix)
    inference.install(blueprint, generation, backend, settings)
    embeddings.install(blueprint, generation, backend, settings)
    registry.install(blueprint, generation, backend, settings)
    neighbours.install(blueprint, generation)
    blueprint.register_error_handler(ServerError, _told)
    return blueprint


def _told(error: ServerError) -> Response:
    status, body = failed(error)
    return reply(status, body, error)
