"""The largest body of each route, and the errors for bodies and requests that are refused before their route.

server/request_body.py reads the body but knows no dialect. Its error is in the WSGI environ, and this module
raises it inside the app, where the dialect renders it.
"""

from collections.abc import Callable

from flask import Flask, request

from api.errors import Draining
from api.hooks.api_keys import is_open
from api.route_lookup import make_route_lookup
from api.wsgi_environ import DRAINING, REFUSED
from inference.errors import TooLarge

BODY_METHODS = ("POST", "PUT", "PATCH")
UNUSED_BODY_BYTES = 64 << 10  # read, and dropped, where nothing reads a body: other methods, unknown paths

BodyLimit = Callable[[str, str], int]  # (method, path) -> bytes


def make_body_limit(app: Flask, max_body_bytes: int, root_path: str = "") -> BodyLimit:
    """The function that finds the largest body of a method and path: its view's limit, or `max_body_bytes`.

    A view declares its limit in its Operation.
    """
    find_operation = make_route_lookup(app, root_path)

    def body_limit(method: str, path: str) -> int:
        operation = find_operation(method, path) if method in BODY_METHODS else None
        return (operation.body_limit or max_body_bytes) if operation else UNUSED_BODY_BYTES

    return body_limit


def install(app: Flask, max_body_bytes: int) -> None:
    body_limit = make_body_limit(app, max_body_bytes)

    def check() -> None:
        environ = request.environ
        if request.routing_exception is None:  # else the request is refused for its path or method
            if REFUSED in environ:
                raise environ[REFUSED]
            if "wsgi.input_terminated" not in environ:  # the server has not judged the body's length
                limit = body_limit(request.method, request.path)
                if (request.content_length or 0) > limit:
                    raise too_large(limit)
        if DRAINING in environ and not is_open(request.method, request.path):
            raise Draining(environ[DRAINING])

    app.before_request(check)


def too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"the body exceeds {limit} bytes: send a smaller one. MAX_BODY_MB is the limit of most routes, "
        "MAX_FILE_MB that of uploaded files"
    )
