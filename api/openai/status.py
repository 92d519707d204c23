"""What the server tells of itself: its model, whether it is well, and how many requests it has."""

from flask import Blueprint, Response

from api.errors import reply
from api.models import card, cards
from api.openai.models import served
from api.openai.operations import LOAD, MODEL, MODELS, PING
from api.operation import described
from api.settings import AppSettings
from inference.backend import Backend


def install(blueprint: Blueprint, backend: Backend) -> None:
    def ping() -> Response:
        if backend.ready():
            return reply(503, {"error": "unhealthy", "error_type": "healthcheck"})
        return Response(status=200)

    def load() -> Response:
        now = backend.load()
        return reply(200, {"server_load": now.running + now.waiting})

    blueprint.add_url_rule("/ping", "ping", described(ping, PING), methods=["GET", "POST"])
    blueprint.add_url_rule("/load", "load", described(load, LOAD))


def install_models(blueprint: Blueprint, prefix: str, backend: Backend, settings: AppSettings) -> None:
    def models() -> Response:
        return reply(200, {"object": "list", "data": cards(backend.info(), settings)})

    def model(name: str) -> Response:
        return reply(200, card(served(name, backend.info(), settings), backend.info()))

    blueprint.add_url_rule(f"{prefix}/models", "models", described(models, MODELS))
    blueprint.add_url_rule(f"{prefix}/models/<path:name>", "model", described(model, MODEL))
