"""The OpenAI API as vLLM serves it, at /v1 and at the prefixes of Llama Stack's and Tinker's clients.

Entry points: make_blueprint; views and error_before_start, which path_dispatch.py calls for the paths that
this dialect shares with TGI.
"""

from collections.abc import Iterable
from functools import partial

from flask import Blueprint, Response

from api.body import json_body
from api.errors import render_errors
from api.openai import adapter_routes, batches, conversations, files, fine_tuning, info_routes, stored_chats
from api.openai.embeddings import create_embedding
from api.openai.errors import InvalidBody, error_before_start
from api.openai.prefix_events import install_prefix_events
from api.openai.protocol.chat import CHAT, ChatCompletionRequest, ChatCompletionResponse
from api.openai.protocol.completion import COMPLETE, STREAM_NOTE, CompletionRequest, CompletionResponse
from api.openai.protocol.embeddings import EMBED, EmbeddingRequest, EmbeddingResponse
from api.openai.protocol.errors import ErrorResponse
from api.openai.protocol.tokenize import TOKENIZE
from api.openai.responses import count_input_tokens, create_response, stored_routes
from api.openai.responses.compaction import COMPACT, compact
from api.openai.responses.connection import render_error
from api.openai.responses.protocol import COUNT_INPUT_TOKENS, RESPOND
from api.openai.routes import CompletionRoutes
from api.openai.stored import StoredRoute
from api.openai.tokenizer_routes import install_tokenizer, tokenize
from api.openapi.operation import Operation, attach_operation
from api.response import SSE, View
from inference.models import Models
from settings.groups import ServerSettings

__all__ = ["error_before_start", "make_blueprint", "views"]

PREFIX = "/v1"
LLAMA_STACK_PREFIX = "/v1/openai/v1"
TINKER_PREFIX, TINKER_PATHS = "/oai/api/v1", ("/completions", "/chat/completions")  # below TINKER_BASE_URL
STORED_ROUTES = (*stored_chats.ROUTES, *stored_routes.ROUTES, *conversations.ROUTES)
INVOKE = Operation(
    "Answer a conversation, continue a text or embed texts",
    STREAM_NOTE,
    ChatCompletionRequest | CompletionRequest | EmbeddingRequest,
    ChatCompletionResponse | CompletionResponse | EmbeddingResponse,
    (SSE.mimetype,),
    error=ErrorResponse,
)


def make_blueprint(models: Models, settings: ServerSettings) -> Blueprint:
    blueprint = Blueprint("openai", __name__)
    post_views = _post_views(models, settings)
    file_routes = files.make_routes(settings.max_file_bytes)
    for prefix in (PREFIX, LLAMA_STACK_PREFIX):
        for path, view in post_views.items():
            blueprint.add_url_rule(prefix + path, prefix + path, view, methods=["POST"])
        _add_routes(blueprint, prefix, (*STORED_ROUTES, *file_routes, *batches.ROUTES))
    for path in TINKER_PATHS:
        rule = TINKER_PREFIX + path
        blueprint.add_url_rule(rule, rule, post_views[path], methods=["POST"])
    _add_routes(blueprint, PREFIX, fine_tuning.ROUTES)
    install_tokenizer(blueprint, models)
    info_routes.install_status(blueprint, models)
    install_prefix_events(blueprint, PREFIX)
    info_routes.install_unsupported(blueprint)
    for prefix in (LLAMA_STACK_PREFIX, TINKER_PREFIX):
        info_routes.install_models(blueprint, prefix, models)
    adapter_routes.install_adapters(blueprint, PREFIX)
    for prefix in (PREFIX, LLAMA_STACK_PREFIX):
        adapter_routes.install_delete(blueprint, prefix)
    render_errors(blueprint, render_error)
    return blueprint


def _add_routes(blueprint: Blueprint, prefix: str, routes: Iterable[StoredRoute]) -> None:
    for route in routes:
        rule = prefix + route.path
        view = attach_operation(partial(route.view), route.operation)
        blueprint.add_url_rule(rule, f"{route.method} {rule}", view, methods=[route.method])


def views(models: Models, settings: ServerSettings) -> dict[str, View]:
    """The views of the shared paths, for bodies in this dialect's format."""
    post_views = _post_views(models, settings)
    fields = {"messages": "/chat/completions", "prompt": "/completions", "input": "/embeddings"}

    def invoke() -> Response:
        """Call the chat, completion or embedding view, by the fields of the body."""
        value = json_body.read()
        for field, path in fields.items():
            if isinstance(value, dict) and field in value:
                return post_views[path]()
        raise InvalidBody("messages, prompt or input is required")

    return {
        "/tokenize": attach_operation(partial(tokenize, models), TOKENIZE),
        "/invocations": attach_operation(invoke, INVOKE),
    }


def _post_views(models: Models, settings: ServerSettings) -> dict[str, View]:
    inference = CompletionRoutes(models, settings)
    return {
        "/completions": attach_operation(partial(inference.complete), COMPLETE),
        "/chat/completions": attach_operation(partial(inference.chat), CHAT),
        "/responses": attach_operation(partial(create_response, models, settings), RESPOND),
        "/responses/input_tokens": attach_operation(
            partial(count_input_tokens, models, settings), COUNT_INPUT_TOKENS
        ),
        "/responses/compact": attach_operation(partial(compact, models, settings), COMPACT),
        "/embeddings": attach_operation(partial(create_embedding, models), EMBED),
    }
