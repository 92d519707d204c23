"""What operators ask: is it alive, is it ready, what does it serve, how is it doing.

Dialects have health routes of their own; these are the server's.
"""

from itertools import groupby

from flask import Blueprint, Response, current_app, request
from msgspec import Struct

from api.environ import DRAINING
from api.errors import Draining, reply
from api.operation import Operation, described
from api.settings import AppSettings
from inference.backend import Backend
from inference.errors import Unavailable
from inference.metrics import Metrics


class Health(Struct):
    status: str


class Version(Struct):
    version: str


class Index(Struct):
    name: str
    version: str
    model: str
    routes: dict[str, list[str]]


OK = Health("OK")
LIVE = Operation("Whether the server answers", answer=Health)
HEALTH = Operation("Whether requests are answered", "503 while they are not.", answer=Health)
READY = Operation("Whether it takes requests", "503 while it loads, has failed or drains.", answer=Health)
VERSION = Operation("The server's version", answer=Version)
INDEX = Operation("What is served here, and every route", answer=Index)
METRICS = Operation("Figures for Prometheus", media="text/plain")

UNHEALTHY = {"error": "unhealthy", "error_type": "healthcheck"}  # as TGI's clients know it


def routes(backend: Backend, settings: AppSettings, metrics: Metrics | None = None) -> Blueprint:
    ops = Blueprint("ops", __name__)

    def live() -> Response:
        return reply(200, OK)

    def health() -> Response:
        return reply(503, UNHEALTHY) if backend.ready() else reply(200, OK)

    def ready() -> Response:
        if DRAINING in request.environ:
            raise Draining(request.environ[DRAINING])
        if why := backend.ready():
            raise Unavailable(why)
        return reply(200, OK)

    def version() -> Response:
        return reply(200, Version(settings.version))

    def index() -> Response:
        return reply(200, Index("hearth", settings.version, backend.info().id, served()))

    ops.add_url_rule("/health", "health", described(health, HEALTH))
    ops.add_url_rule("/health/live", "live", described(live, LIVE))
    ops.add_url_rule("/health/ready", "ready", described(ready, READY))
    ops.add_url_rule("/version", "version", described(version, VERSION))
    ops.add_url_rule("/", "index", described(index, INDEX))
    if metrics:
        ops.add_url_rule("/metrics", "metrics", described(lambda: _text(metrics.render()), METRICS))
    return ops


def served() -> dict[str, list[str]]:
    """Every route by the blueprint it belongs to: "POST /inference/completion"."""
    rules = sorted(current_app.url_map.iter_rules(), key=lambda rule: (rule.endpoint, rule.rule))
    return {
        name: [f"{method} {rule.rule}" for rule in group for method in _methods(rule.methods)]
        for name, group in groupby(rules, key=lambda rule: rule.endpoint.partition(".")[0])
    }


def _methods(methods: set[str] | None) -> list[str]:
    return sorted((methods or set()) - {"HEAD", "OPTIONS"})


def _text(figures: bytes) -> Response:
    return Response(figures, content_type="text/plain; version=0.0.4; charset=utf-8")
