"""What vLLM tells of itself beside answering: whether it is well, and how many requests it has."""

from flask import Blueprint, Response

from api.errors import reply
from inference.backend import Backend


def install(blueprint: Blueprint, backend: Backend) -> None:
    @blueprint.route("/ping", methods=["GET", "POST"])
    def ping() -> Response:
        if backend.ready():
            return reply(503, {"error": "unhealthy", "error_type": "healthcheck"})
        return Response(status=200)

    @blueprint.get("/load")
    def load() -> Response:
        now = backend.load()
        return reply(200, {"server_load": now.running + now.waiting})
