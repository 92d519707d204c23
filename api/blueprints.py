"""The blueprints of the app: the dialects, the server's own routes, and its pages."""

from collections.abc import Callable

from flask import Blueprint, Flask

from api import (
    doc_pages,
    h2ogpt,
    health,
    link,
    llama_stack,
    neodim,
    openai,
    openapi,
    path_dispatch,
    playground,
    tgi,
    tinker,
    tuning,
)
from api.management import llama_cpp, model_loading, sglang, sleep_mode, transformers_serve
from inference.metrics import Metrics
from inference.models import Models
from settings.groups import ServerSettings

MAKE_BLUEPRINTS: tuple[Callable[[Models, ServerSettings], Blueprint], ...] = (
    llama_stack.make_blueprint,
    openai.make_blueprint,
    tgi.make_blueprint,
    sglang.make_blueprint,
    transformers_serve.make_blueprint,
    llama_cpp.make_blueprint,
    h2ogpt.make_blueprint,
    model_loading.make_blueprint,
    sleep_mode.make_blueprint,
    path_dispatch.make_blueprint,
    playground.make_blueprint,
    tuning.make_blueprint,
    tinker.make_blueprint,
    openapi.make_blueprint,
    doc_pages.make_blueprint,
)
# Their views call cors.check_page themselves: Neodim's server answered the pages of any origin.
PATHS_WITH_OWN_CORS = (neodim.PATH,)


def register_blueprints(
    app: Flask, models: Models, settings: ServerSettings, metrics: Metrics | None
) -> None:
    """Add all routes. Without `metrics` there is no /metrics route; the link has one if the settings say."""
    app.register_blueprint(health.make_blueprint(models, settings, metrics))
    for make_blueprint in MAKE_BLUEPRINTS:
        app.register_blueprint(make_blueprint(models, settings))
    if settings.has_link:
        app.register_blueprint(link.make_blueprint(models, settings))
