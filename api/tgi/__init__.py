"""The dialect of Text Generation Inference.

Doors: routes; views, for the paths it shares with another dialect; told, its errors.
"""

from collections.abc import Callable
from functools import partial

from flask import Blueprint, Response

from api.errors import reply, speak
from api.operation import described
from api.settings import AppSettings
from api.tgi import info, operations, tokenize, vertex
from api.tgi.errors import told
from api.tgi.inference import Inference
from inference.backend import Backend

__all__ = ["routes", "told", "views"]

View = Callable[[], Response]


def routes(backend: Backend, settings: AppSettings) -> Blueprint:
    """All paths but those that another dialect has, too."""
    blueprint = Blueprint("tgi", __name__)
    inference = Inference(backend, settings)
    chat_tokenize = partial(tokenize.conversation, backend, settings)
    posted: dict[str, View] = {
        "/": described(partial(inference.compatible), operations.COMPATIBLE),
        "/generate_stream": described(partial(inference.generate_stream), operations.GENERATE_STREAM),
        "/vertex": described(partial(vertex.predict, inference), operations.VERTEX),
        "/chat_tokenize": described(chat_tokenize, operations.CHAT_TOKENIZE),
    }
    for path, view in posted.items():
        blueprint.add_url_rule(path, path, view, methods=["POST"])
    told_of = described(lambda: reply(200, info.told(backend.info(), settings)), operations.INFO)
    blueprint.add_url_rule("/info", "/info", told_of)
    speak(blueprint, told)
    return blueprint


def views(backend: Backend, settings: AppSettings) -> dict[str, View]:
    """What answers on the shared paths where the body is TGI's."""
    inference = Inference(backend, settings)
    return {
        "/generate": described(partial(inference.generate), operations.GENERATE),
        "/tokenize": described(partial(tokenize.text, backend), operations.TOKENIZE),
        "/invocations": described(partial(inference.compatible), operations.COMPATIBLE),
    }
