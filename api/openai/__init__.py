"""The OpenAI dialect, as vLLM speaks it: at /v1, and again where Llama Stack's clients look for it.

Doors: routes; views, for the paths it shares with another dialect; told, its errors.
"""

from collections.abc import Callable
from functools import partial

from flask import Blueprint, Response

from api import body
from api.errors import speak
from api.openai import models, responses, status
from api.openai.embeddings import embeddings
from api.openai.errors import WrongBody, told
from api.openai.inference import Inference
from api.openai.tokens import detokenize, tokenize
from api.settings import AppSettings
from inference.backend import Backend

__all__ = ["routes", "told", "views"]

PREFIX = "/v1"
LLAMA_STACK = "/v1/openai/v1"

View = Callable[[], Response]


def routes(backend: Backend, settings: AppSettings) -> Blueprint:
    blueprint = Blueprint("openai", __name__)
    generating = _generating(backend, settings)
    for prefix in (PREFIX, LLAMA_STACK):
        for path, view in generating.items():
            blueprint.add_url_rule(prefix + path, prefix + path, view, methods=["POST"])
        responses.install(blueprint, prefix, backend, settings)
    blueprint.add_url_rule(
        "/detokenize", "detokenize", partial(detokenize, backend, settings), methods=["POST"]
    )
    again = Blueprint("llama_stack", __name__, url_prefix=LLAMA_STACK)
    models.install(again, backend, settings)
    blueprint.register_blueprint(again)
    status.install(blueprint, backend)
    speak(blueprint, told)
    return blueprint


def views(backend: Backend, settings: AppSettings) -> dict[str, View]:
    """The views of paths that another dialect has as well."""
    generating = _generating(backend, settings)
    fields = {"messages": "/chat/completions", "prompt": "/completions", "input": "/embeddings"}

    def invoke() -> Response:
        """Whatever the body asks for."""
        given = body.read()
        for field, path in fields.items():
            if isinstance(given, dict) and field in given:
                return generating[path]()
        raise WrongBody("messages, prompt or input is required")

    return {"/tokenize": partial(tokenize, backend, settings), "/invocations": invoke}


def _generating(backend: Backend, settings: AppSettings) -> dict[str, View]:
    inference = Inference(backend, settings)
    return {
        "/completions": inference.complete,
        "/chat/completions": inference.chat,
        "/embeddings": partial(embeddings, backend, settings),
    }
