"""The dialect of Text Generation Inference (TGI).

Entry points: `make_blueprint`; `views` and `error_before_start`, which path_dispatch.py calls for the paths
that TGI shares with another dialect.
"""

from functools import partial

from flask import Blueprint

from api.errors import json_response, render_errors
from api.openapi.operation import attach_operation
from api.response import View
from api.tgi import info_routes, routes, vertex
from api.tgi.embed import EMBED, embed
from api.tgi.errors import error_before_start
from inference.models import Models
from settings.groups import ServerSettings

__all__ = ["error_before_start", "make_blueprint", "views"]


def make_blueprint(models: Models, settings: ServerSettings) -> Blueprint:
    """All routes except those on paths that TGI shares with another dialect.

    The default model answers, unless adapter_id names another one.
    """
    blueprint = Blueprint("tgi", __name__)
    backend = models.default.backend
    generate_routes = routes.GenerateRoutes(models, settings)
    chat_tokenize = partial(routes.tokenize_chat, backend, settings)
    post_views: dict[str, View] = {
        "/": attach_operation(partial(generate_routes.compat_generate), routes.COMPAT_GENERATE),
        "/generate_stream": attach_operation(
            partial(generate_routes.generate_stream), routes.GENERATE_STREAM
        ),
        "/vertex": attach_operation(partial(vertex.predict, generate_routes), routes.VERTEX),
        "/chat_tokenize": attach_operation(chat_tokenize, routes.CHAT_TOKENIZE),
        "/embed": attach_operation(partial(embed, backend, settings), EMBED),
    }
    for path, view in post_views.items():
        blueprint.add_url_rule(path, path, view, methods=["POST"])
    info_view = attach_operation(
        lambda: json_response(200, info_routes.server_info(models, settings)), routes.INFO
    )
    blueprint.add_url_rule("/info", "/info", info_view)
    render_errors(blueprint, error_before_start)
    return blueprint


def views(models: Models, settings: ServerSettings) -> dict[str, View]:
    """The views of the shared paths, for bodies in TGI's format."""
    backend = models.default.backend
    generate_routes = routes.GenerateRoutes(models, settings)
    return {
        "/generate": attach_operation(partial(generate_routes.generate), routes.GENERATE),
        "/tokenize": attach_operation(partial(routes.tokenize_text, backend), routes.TOKENIZE),
        "/invocations": attach_operation(partial(generate_routes.compat_generate), routes.COMPAT_GENERATE),
    }
