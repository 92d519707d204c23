"""HTTP in, HTTP out: the Flask app over a Backend. One door: create_app.

Knows the dialects' blueprints and what all of them share: request ids, keys, CORS, limits, errors as JSON.
"""

from flask import Flask

from api import access, cors, errors, keys, limits
from api.concurrency import Admitted
from api.settings import AppSettings
from inference.backend import Backend
from inference.metrics import Metrics


def create_app(backend: Backend, settings: AppSettings, metrics: Metrics | None = None) -> Flask:
    """The app that answers for `backend`; `metrics`, if given, is shown at /metrics."""
    from api import llama_stack, neodim, openai, openapi, ops, playground, shared, tgi

    app = Flask("hearth", static_folder=None)
    app.url_map.strict_slashes = app.url_map.merge_slashes = False  # a redirect would lose the body
    app.config["MAX_CONTENT_LENGTH"] = settings.max_body_bytes
    backend = Admitted(backend, settings.max_concurrent)
    app.register_blueprint(ops.routes(backend, settings, metrics))
    for part in (llama_stack, openai, tgi, neodim, shared, playground, openapi):
        app.register_blueprint(part.routes(backend, settings))

    # The order in which a request meets them; responses pass the other way.
    access.install(app, metrics)
    cors.install(app, settings.cors_origins)
    limits.install(app, settings.max_body_bytes)
    keys.install(app, settings.api_keys)
    errors.install(app)
    return app
