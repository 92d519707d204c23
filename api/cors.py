"""CORS: which web pages may call the server. The headers are on errors and streams too."""

import re

from flask import Flask, Response, request

METHODS = "GET, POST, PUT, DELETE, OPTIONS"
EXPOSED_HEADERS = "X-Request-Id, Retry-After"
ALLOWED_HEADERS = "Authorization, Content-Type, X-Api-Key, X-Request-Id"
HEADER_NAMES = re.compile(r"[\w\-, ]+", re.ASCII)
PREFLIGHT_AGE_S = 600


def install(app: Flask, origins: tuple[str, ...], allow_credentials: bool = False) -> None:
    """Allow pages of `origins`, or of any origin if "*" is listed. With no `origins`, send no headers.

    allow_credentials: pages may send cookies. Browsers then demand the page's origin in place of "*".
    """
    any_origin = "*" if "*" in origins and not allow_credentials else ""

    def answer_preflight() -> Response | None:
        if request.method != "OPTIONS" or "Access-Control-Request-Method" not in request.headers:
            return None
        response = Response(status=204, headers=preflight_headers(METHODS))
        response.headers["Access-Control-Max-Age"] = str(PREFLIGHT_AGE_S)
        return response

    def add_headers(response: Response) -> Response:
        if not any_origin:
            response.vary.add("Origin")
        origin = request.headers.get("Origin", "")
        if allowed_origin := any_origin or (origin if origin in origins or "*" in origins else ""):
            response.headers["Access-Control-Allow-Origin"] = allowed_origin
            response.headers["Access-Control-Expose-Headers"] = EXPOSED_HEADERS
            if allow_credentials:
                response.headers["Access-Control-Allow-Credentials"] = "true"
        return response

    if origins:
        app.before_request(answer_preflight)
        app.after_request(add_headers)


def preflight_headers(methods: str) -> dict[str, str]:
    """The headers that allow `methods`, and the headers that the preflight requests."""
    requested = request.headers.get("Access-Control-Request-Headers", "")
    return {
        "Access-Control-Allow-Methods": methods,
        "Access-Control-Allow-Headers": requested if HEADER_NAMES.fullmatch(requested) else ALLOWED_HEADERS,
    }
