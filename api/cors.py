"""CORS: which web pages may call, said on every response: errors and streams too."""

import re

from flask import Flask, Response, request

METHODS = "GET, POST, PUT, DELETE, OPTIONS"
EXPOSED = "X-Request-Id, Retry-After"
HEADERS = "Authorization, Content-Type, X-Api-Key, X-Request-Id"
NAMES = re.compile(r"[\w\-, ]+", re.ASCII)
PREFLIGHT_AGE_S = 600


def install(app: Flask, origins: tuple[str, ...]) -> None:
    """Allow pages of `origins`, or of any if "*" is among them. None: no header at all."""

    def allowed() -> str:
        origin = request.headers.get("Origin", "")
        return "*" if "*" in origins else origin if origin in origins else ""

    def preflight() -> Response | None:
        if request.method != "OPTIONS" or "Access-Control-Request-Method" not in request.headers:
            return None
        response = Response(status=204)
        response.headers["Access-Control-Allow-Methods"] = METHODS
        asked = request.headers.get("Access-Control-Request-Headers", "")
        response.headers["Access-Control-Allow-Headers"] = asked if NAMES.fullmatch(asked) else HEADERS
        response.headers["Access-Control-Max-Age"] = str(PREFLIGHT_AGE_S)
        return response

    def permit(response: Response) -> Response:
        if "*" not in origins:
            response.vary.add("Origin")
        if origin := allowed():
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = EXPOSED
        return response

    if origins:
        app.before_request(preflight)
        app.after_request(permit)
