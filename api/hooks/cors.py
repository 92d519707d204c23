"""Which web pages may call the server, and read its answers (CORS).

The headers are on errors and streams too. A page that is not allowed is refused: without CORS headers a
browser hides the answer from it, but sends its request if that needs no preflight.
"""

import re

from flask import Flask, Response, current_app, request

from api.errors import Forbidden
from inference.errors import short

METHODS = "GET, POST, PUT, DELETE, OPTIONS"
EXPOSED_HEADERS = "X-Request-Id, Retry-After"
ALLOWED_HEADERS = "Authorization, Content-Type, X-Api-Key, X-Request-Id"
HEADER_NAMES = re.compile(r"[\w\-, ]+", re.ASCII)
PREFLIGHT_AGE_S = 600
CORS_ORIGINS = "cors_origins"  # key in app.extensions: the origins whose pages may call the server
PAGE_ORIGIN = re.compile(r"null|(?P<scheme>https?)://(?P<host>.*)")  # others are of installed programs
DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def install(
    app: Flask,
    origins: tuple[str, ...],
    allow_credentials: bool = False,
    unchecked_paths: tuple[str, ...] = (),
) -> None:
    """Allow pages of `origins`, or of any origin if "*" is listed. With no `origins`, send no headers.

    allow_credentials  pages may send cookies. Browsers then demand the page's origin in place of "*"
    unchecked_paths    the views of these paths call `check_page` themselves
    """
    app.extensions[CORS_ORIGINS] = origins
    any_origin = "*" if "*" in origins and not allow_credentials else ""

    def check_origin() -> None:
        if request.path.rstrip("/") not in unchecked_paths:
            check_page()

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

    if "*" not in origins:
        app.before_request(check_origin)
    if origins:
        app.before_request(answer_preflight)
        app.after_request(add_headers)


def check_page() -> None:
    """Refuse the current request if a page sends it that is neither of this server nor of `origins`."""
    origin = request.headers.get("Origin", "")
    if not (is_foreign(origin) if origin else is_embedded()):
        return
    if origin not in current_app.extensions[CORS_ORIGINS]:
        pages = f"pages of {short(origin)}" if origin else "pages of other sites"
        raise Forbidden(
            f"{pages} may not call this server: list the origin "
            "in CORS_ORIGINS; if this server sent the page, let the proxy in between pass the Host header on"
        )


def is_foreign(origin: str) -> bool:
    """Whether `origin` is that of a page, and not of this server as the browser or a proxy names it."""
    page = PAGE_ORIGIN.fullmatch(origin)
    if page is None or request.headers.get("Sec-Fetch-Site") == "same-origin":
        return False
    default_port = DEFAULT_PORTS.get(page["scheme"], "")
    own_hosts = (request.headers.get("Host", ""), request.headers.get("X-Forwarded-Host", ""))
    return (page["host"] or "").removesuffix(default_port) not in [
        host.lower().removesuffix(default_port) for host in own_hosts if host
    ]


def is_embedded() -> bool:
    """Whether another site's page loads this address as a part of itself: an image, a script, a style."""
    is_link = request.headers.get("Sec-Fetch-Mode") == "navigate"
    return request.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site") and not is_link


def preflight_headers(methods: str) -> dict[str, str]:
    """The headers that allow `methods`, and the headers that the preflight requests."""
    requested = request.headers.get("Access-Control-Request-Headers", "")
    return {
        "Access-Control-Allow-Methods": methods,
        "Access-Control-Allow-Headers": requested if HEADER_NAMES.fullmatch(requested) else ALLOWED_HEADERS,
    }
