"""Routes for models, health and load, and vLLM's routes for other kinds of models, which answer 400."""

from functools import partial
from typing import NoReturn

from flask import Blueprint, Response

from api.errors import json_response
from api.model_card import model_card, model_cards
from api.openai.errors import unsupported_api
from api.openai.protocol.errors import UnhealthyResponse
from api.openai.protocol.models import LOAD, MODEL, MODELS, PING, UNSUPPORTED, LoadResponse, ModelList
from api.openapi.operation import attach_operation
from inference.models import Models

UNSUPPORTED_APIS = {
    "/pooling": "Pooling",
    "/classify": "Classification",
    "/score": "Score",
    "/v1/score": "Score",
    "/rerank": "Rerank (Score)",
    "/v1/rerank": "Rerank (Score)",
    "/v2/rerank": "Rerank (Score)",
    "/v1/audio/transcriptions": "Transcriptions",
    "/v1/audio/translations": "Translations",
}


def install_status(blueprint: Blueprint, models: Models) -> None:
    def ping() -> Response:
        if models.unavailable_reason():
            return json_response(503, UnhealthyResponse("unhealthy", "healthcheck"))
        return Response(status=200)

    def load() -> Response:
        loads = [backend.current_load() for backend in models.backends]
        return json_response(200, LoadResponse(sum(load.running + load.waiting for load in loads)))

    blueprint.add_url_rule("/ping", "ping", attach_operation(ping, PING), methods=["GET", "POST"])
    blueprint.add_url_rule("/load", "load", attach_operation(load, LOAD))


def install_models(blueprint: Blueprint, prefix: str, models: Models) -> None:
    def list_models() -> Response:
        return json_response(200, ModelList(data=model_cards(models)))

    def show_model(name: str) -> Response:
        return json_response(200, model_card(models.resolve(name).card))

    blueprint.add_url_rule(f"{prefix}/models", f"{prefix}/models", attach_operation(list_models, MODELS))
    blueprint.add_url_rule(
        f"{prefix}/models/<path:name>", f"{prefix}/model", attach_operation(show_model, MODEL)
    )


def install_unsupported(blueprint: Blueprint) -> None:
    for path, api in UNSUPPORTED_APIS.items():
        view = attach_operation(partial(_refuse, api), UNSUPPORTED)
        blueprint.add_url_rule(path, path, view, methods=["POST"])


def _refuse(api: str) -> NoReturn:
    raise unsupported_api(api)
