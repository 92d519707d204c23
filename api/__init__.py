"""The Flask app over a Backend. Entry point: create_app.

Knows the blueprints and what they share: request ids, API keys, CORS, body limits, JSON errors. Does not know
the engine or the model.
"""

from flask import Flask

from api import api_keys, body_limits, cors, errors, request_log
from api.concurrency_limit import LimitedBackend
from api.wsgi_environ import strip_root_path
from inference.backend import Backend
from inference.metrics import Metrics
from settings.groups import ServerSettings


def create_app(backend: Backend, settings: ServerSettings, metrics: Metrics | None = None) -> Flask:
    """Build the app that serves `backend`. Without `metrics` there is no /metrics route."""
    from api import doc_pages, health, llama_stack, neodim, openai, openapi, path_dispatch, playground, tgi

    app = Flask("hearth", static_folder=None)
    app.url_map.strict_slashes = app.url_map.merge_slashes = False  # a redirect would lose the request body
    app.config["MAX_CONTENT_LENGTH"] = settings.max_body_bytes
    backend = LimitedBackend(backend, settings.max_concurrent_requests)
    app.register_blueprint(health.make_blueprint(backend, settings, metrics))
    for dialect in (llama_stack, openai, tgi, neodim, path_dispatch, playground, openapi, doc_pages):
        app.register_blueprint(dialect.make_blueprint(backend, settings))

    # Flask calls before_request functions in this order, after_request functions in the reverse order.
    request_log.install(app, metrics)
    cors.install(app, settings.cors_origins, settings.cors_credentials)
    body_limits.install(app, settings.max_body_bytes)
    api_keys.install(app, settings.api_keys)
    errors.install(app)
    if settings.root_path:
        app.wsgi_app = strip_root_path(app.wsgi_app, settings.root_path)  # type: ignore[method-assign]
    return app
