"""The OpenAI dialect, as vLLM speaks it: at /v1, and again where Llama Stack's clients look for it.

Doors: routes; views, for the paths it shares with another dialect; told, its errors.
"""

from collections.abc import Callable
from functools import partial

from flask import Blueprint, Response

from api import body
from api.errors import speak
from api.openai import absent, operations, status
from api.openai.embeddings import embeddings
from api.openai.errors import WrongBody, told
from api.openai.inference import Inference
from api.openai.responses import forgotten, respond
from api.openai.tokens import detokenize, tokenize
from api.operation import described
from api.settings import AppSettings
from inference.backend import Backend

__all__ = ["routes", "told", "views"]

PREFIX = "/v1"
LLAMA_STACK = "/v1/openai/v1"
KEPT = {"": ["GET", "DELETE"], "/cancel": ["POST"], "/input_items": ["GET"]}  # of a response, if it were

View = Callable[[], Response]


def routes(backend: Backend, settings: AppSettings) -> Blueprint:
    blueprint = Blueprint("openai", __name__)
    posts = _posts(backend, settings)
    for prefix in (PREFIX, LLAMA_STACK):
        for path, view in posts.items():
            blueprint.add_url_rule(prefix + path, prefix + path, view, methods=["POST"])
        for path, methods in KEPT.items():
            rule = f"{prefix}/responses/<id>{path}"
            blueprint.add_url_rule(rule, rule, described(forgotten, operations.FORGOTTEN), methods=methods)
    view = described(partial(detokenize, backend, settings), operations.DETOKENIZE)
    blueprint.add_url_rule("/detokenize", "detokenize", view, methods=["POST"])
    status.install(blueprint, backend)
    absent.install(blueprint)
    status.install_models(blueprint, LLAMA_STACK, backend, settings)
    speak(blueprint, told)
    return blueprint


def views(backend: Backend, settings: AppSettings) -> dict[str, View]:
    """The views of paths that another dialect has as well."""
    posts = _posts(backend, settings)
    fields = {"messages": "/chat/completions", "prompt": "/completions", "input": "/embeddings"}

    def invoke() -> Response:
        """Whatever the body asks for."""
        given = body.read()
        for field, path in fields.items():
            if isinstance(given, dict) and field in given:
                return posts[path]()
        raise WrongBody("messages, prompt or input is required")

    return {
        "/tokenize": described(partial(tokenize, backend, settings), operations.TOKENIZE),
        "/invocations": described(invoke, operations.INVOKE),
    }


def _posts(backend: Backend, settings: AppSettings) -> dict[str, View]:
    inference = Inference(backend, settings)
    return {
        "/completions": described(partial(inference.complete), operations.COMPLETE),
        "/chat/completions": described(partial(inference.chat), operations.CHAT),
        "/responses": described(partial(respond, backend, settings), operations.RESPOND),
        "/embeddings": described(partial(embeddings, backend, settings), operations.EMBED),
    }
