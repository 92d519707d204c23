"""What operators ask: is it alive, is it ready, what does it serve, how is it doing.

Dialects have health routes of their own; these are the server's.
"""

from itertools import groupby

from flask import Blueprint, Response, current_app, request

from api.environ import DRAINING
from api.errors import Draining, reply
from api.settings import AppSettings
from inference.backend import Backend
from inference.errors import Unavailable
from inference.metrics import Metrics


def routes(backend: Backend, settings: AppSettings, metrics: Metrics | None = None) -> Blueprint:
    ops = Blueprint("ops", __name__)

    @ops.get("/health")
    @ops.get("/health/live")
    def live() -> Response:
        return reply(200, {"status": "OK"})

    @ops.get("/health/ready")
    def ready() -> Response:
        if DRAINING in request.environ:
            raise Draining(request.environ[DRAINING])
        if why := backend.ready():
            raise Unavailable(why)
        return reply(200, {"status": "OK"})

    @ops.get("/version")
    def version() -> Response:
        return reply(200, {"version": settings.version})

    @ops.get("/")
    def index() -> Response:
        return reply(
            200,
            {
                "name": "hearth",
                "version": settings.version,
                "model": backend.info().id,
                "routes": served(),
            },
        )

    if metrics:
        ops.add_url_rule("/metrics", view_func=lambda: _text(metrics.render()))
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
