"""The server's own routes: liveness, readiness, version, the index of routes, and Prometheus metrics.

Knows the models' readiness and the app's routes. The dialects have their own health routes.
"""

from itertools import groupby

from flask import Blueprint, Response, current_app, request
from msgspec import Struct

from api.errors import Draining, json_response
from api.hooks.start_id import current_start_id
from api.management.sleep_mode import sleep_reason
from api.model_card import ModelState, model_states
from api.openapi.document import listed_methods
from api.openapi.operation import Operation, attach_operation
from api.wsgi_environ import DRAINING
from inference.errors import Unavailable
from inference.metrics import Metrics
from inference.models import Models
from settings.groups import ServerSettings


class HealthResponse(Struct):
    status: str


class ReadyResponse(Struct):
    status: str
    models: list[ModelState]


class VersionResponse(Struct):
    version: str


class ServerIndex(Struct):
    name: str
    version: str
    model: str
    start_id: str
    routes: dict[str, list[str]]


OK = HealthResponse("OK")
LIVE = Operation("Check that the process responds", "Always 200.", response=HealthResponse)
HEALTH = Operation(
    "Check that requests can be answered",
    "503 after the engine stopped, or when it failed several requests in a row and one of the server's own.",
    response=HealthResponse,
)
READY = Operation(
    "Check that new requests are accepted",
    "As /health, with the reason of a 503, and whether each model is in memory; also 503 during shutdown"
    " and while the model sleeps.",
    response=ReadyResponse,
)
VERSION = Operation("Show the server's version", response=VersionResponse)
INDEX = Operation("Show the served model and list all routes", response=ServerIndex)
METRICS = Operation("Show metrics for Prometheus", media_type="text/plain")

METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
UNHEALTHY = {"error": "unhealthy", "error_type": "healthcheck"}  # TGI's format


def make_blueprint(models: Models, settings: ServerSettings, metrics: Metrics | None = None) -> Blueprint:
    ops = Blueprint("ops", __name__)

    def live() -> Response:
        return json_response(200, OK)

    def health() -> Response:
        return json_response(503, UNHEALTHY) if models.unavailable_reason() else json_response(200, OK)

    def ready() -> Response:
        if DRAINING in request.environ:
            raise Draining(request.environ[DRAINING])
        if reason := models.unavailable_reason() or sleep_reason():
            raise Unavailable(reason)
        return json_response(200, ReadyResponse(OK.status, model_states(models)))

    def version() -> Response:
        return json_response(200, VersionResponse(settings.version))

    def index() -> Response:
        name = models.default.card.name
        server_index = ServerIndex(
            "hearth", settings.version, name, current_start_id(), routes_by_blueprint()
        )
        return json_response(200, server_index)

    ops.add_url_rule("/health", "health", attach_operation(health, HEALTH))
    ops.add_url_rule("/health/live", "live", attach_operation(live, LIVE))
    ops.add_url_rule("/health/ready", "ready", attach_operation(ready, READY))
    ops.add_url_rule("/version", "version", attach_operation(version, VERSION))
    ops.add_url_rule("/", "index", attach_operation(index, INDEX))
    if metrics:
        render = metrics.render
        view = attach_operation(lambda: Response(render(), content_type=METRICS_CONTENT_TYPE), METRICS)
        ops.add_url_rule("/metrics", "metrics", view)
    return ops


def routes_by_blueprint() -> dict[str, list[str]]:
    """Blueprint name -> its routes, each as "POST /inference/completion"."""
    rules = sorted(current_app.url_map.iter_rules(), key=lambda rule: (rule.endpoint, rule.rule))
    return {
        name: [f"{method} {rule.rule}" for rule in group for method in listed_methods(rule)]
        for name, group in groupby(rules, key=lambda rule: rule.endpoint.partition(".")[0])
    }
