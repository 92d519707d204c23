"""The model a body names, and the list of models where Llama Stack's clients look for it."""

from flask import Blueprint, Response

from api.errors import reply
from api.models import card, cards, known
from api.openai.errors import UnknownModel
from api.settings import AppSettings
from inference.backend import Backend
from inference.types import ModelInfo

STANDINS = frozenset({"", "tgi", "dummy"})  # what TGI's and huggingface_hub's clients call any model


def served(name: str | None, info: ModelInfo, settings: AppSettings) -> str:
    """The name for the model in replies: the one it was asked by. Raises UnknownModel."""
    if name is None or name in STANDINS:
        return info.id
    if not known(name, info, settings):
        raise UnknownModel(name)
    return name


def install(blueprint: Blueprint, backend: Backend, settings: AppSettings) -> None:
    @blueprint.get("/models")
    def models() -> Response:
        return reply(200, {"object": "list", "data": cards(backend.info(), settings)})

    @blueprint.get("/models/<path:name>")
    def model(name: str) -> Response:
        return reply(200, card(served(name, backend.info(), settings), backend.info()))
