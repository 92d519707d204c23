"""The Flask app over the served models. Entry point: create_app.

Knows what the blueprints share: request ids, API keys, CORS, limits, JSON errors. Does not know the engine
or the model.
"""

from flask import Flask

from api import adapters, errors
from api.batches import access as batches_access
from api.hooks import (
    adapter_sums,
    allowed_hosts,
    api_keys,
    body_limits,
    concurrency_limit,
    cors,
    request_log,
    start_id,
    tuning_access,
)
from api.management import model_loading, sleep_mode
from api.services import Services
from api.store import access
from api.tinker.sampling import samples
from api.url_rule import AnyPath, UrlRule
from api.wsgi_environ import strip_root_path
from inference.metrics import Metrics
from inference.models import Models
from settings.adapter_list import default_scales
from settings.groups import ServerSettings

NO_SERVICES = Services()


def create_app(
    models: Models,
    settings: ServerSettings,
    metrics: Metrics | None = None,
    services: Services = NO_SERVICES,
) -> Flask:
    """Build the app that serves `models`. Without `metrics` there is no /metrics route."""
    from api.blueprints import PATHS_WITH_OWN_CORS, register_blueprints

    app = Flask("hearth", static_folder=None)
    app.url_rule_class = UrlRule
    app.url_map.converters["path"] = AnyPath
    app.url_map.strict_slashes = app.url_map.merge_slashes = False  # a redirect would lose the request body
    register_blueprints(app, models, settings, metrics)

    # Flask calls before_request functions in this order, after_request functions in the reverse order.
    request_log.install(app, metrics)
    start_id.install(app)
    allowed_hosts.install(app, settings)
    permits = concurrency_limit.install(app, settings.max_concurrent_requests, models)
    access.install(app, services.store)
    adapter_sums.install(app, default_scales(settings.lora_adapters))
    adapters.install(app, adapters.AdapterLoader(models, settings.adapter_dirs, services.fetch_adapter))
    tuning_access.install(app, services.tuning)
    batches_access.install(app, services.batches)
    model_loading.install(app, services.model_loader)
    sleep_mode.install(app, services.sleeper)
    samples.install(app)
    unchecked_paths = () if settings.cors_origins else PATHS_WITH_OWN_CORS
    cors.install(app, settings.cors_origins, settings.cors_credentials, unchecked_paths=unchecked_paths)
    body_limits.install(app, settings.max_body_bytes)
    api_keys.install(app, settings.api_keys)
    errors.install(app, permits.overloaded)
    if settings.root_path:
        app.wsgi_app = strip_root_path(app.wsgi_app, settings.root_path)  # type: ignore[method-assign]
    return app
