"""Every error as JSON: the body of those no dialect has claimed, and the headers an error brings along.

Knows ServerError and HTTP's own exceptions. A dialect's blueprint may render its errors its own way.
"""

import logging
import math
from collections.abc import Callable
from typing import Any, ClassVar

from flask import Blueprint, Flask, Response, current_app, g, request
from flask.globals import request_ctx
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from api.encode import MIMETYPE, encode
from inference.errors import Internal, NotFound, ServerError, TooLarge, Unavailable

MENDS = {
    404: "there is no such route: GET / lists what is served",
    405: "this route does not take that method: the header Allow names those it takes",
}

log = logging.getLogger(__name__)

Told = Callable[[ServerError], Response]


class WrongMethod(ServerError):
    status: ClassVar[int] = 405


class WrongContent(ServerError):
    """The body is of a kind that is not read here."""

    status: ClassVar[int] = 415


class Malformed(ServerError):
    """What HTTP itself forbids, and no other class says better."""

    status: ClassVar[int] = 400


HTTP_OWN: dict[int, type[ServerError]] = {404: NotFound, 405: WrongMethod, 413: TooLarge, 415: WrongContent}


class SlowBody(ServerError):
    """The request's body stopped arriving."""

    status: ClassVar[int] = 408


class Draining(Unavailable):
    """The server finishes what it has begun and takes nothing new."""

    def __init__(self, retry_after: float) -> None:
        super().__init__("the server is shutting down: send the request to another, or again later")
        self.retry_after = retry_after


def envelope(message: str, detail: Any = None) -> dict[str, Any]:
    """The body all client generations can read: `error.message`, `error.detail` and `detail`."""
    detail = message if detail is None else detail
    return {"error": {"detail": detail, "message": message}, "detail": detail}


def reply(status: int, body: Any, error: ServerError | None = None) -> Response:
    """A JSON response, with the headers that belong to `error`."""
    return Response(encode(body), status, extra_headers(error), content_type=MIMETYPE)


def extra_headers(error: ServerError | None) -> dict[str, str]:
    headers = {}
    retry_after = getattr(error, "retry_after", None)
    if retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(retry_after)))
    if error is not None and error.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="hearth"'
    return headers


def speak(blueprint: Blueprint, told: Told) -> None:
    """Have every error of the blueprint's routes said by `told`: a ServerError, and HTTP's own."""

    def http(error: HTTPException) -> Response:
        kind = HTTP_OWN.get(error.code or 500, Malformed)
        return _with_headers(told(kind(_mend(error))), error)

    blueprint.register_error_handler(ServerError, told)
    blueprint.register_error_handler(HTTPException, http)


def install(app: Flask) -> None:
    app.register_error_handler(ServerError, _told)
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(Exception, _unforeseen)


def _told(error: ServerError) -> Response:
    return reply(error.status, envelope(error.message), error)


def _http(error: HTTPException) -> Response:
    """404, 405 and the rest of HTTP's own, with their headers (Allow, Location)."""
    if isinstance(error, MethodNotAllowed) and request.url_rule is None:
        request.url_rule = _other_method(error)  # so that its own dialect is asked
        return current_app.make_response(current_app.handle_http_exception(error))
    return _with_headers(reply(error.code or 500, envelope(_mend(error), error.name)), error)


def _other_method(error: MethodNotAllowed) -> Any:
    """The rule of the same path that takes another method."""
    method = next(iter(error.valid_methods or ()), "GET")
    return request_ctx.url_adapter.match(method=method, return_rule=True)[0]  # type: ignore[union-attr]


def _mend(error: HTTPException) -> str:
    return MENDS.get(error.code or 500, error.description or error.name)


def _with_headers(response: Response, error: HTTPException) -> Response:
    response.headers.extend([(name, value) for name, value in error.get_headers() if name != "Content-Type"])
    return response


def _unforeseen(error: Exception) -> Response:
    """A bug of ours: the log has it all, the client its request id (a header) and nothing else."""
    log.error("unforeseen error: request id=%s", g.get("request_id"), exc_info=error)
    told = Internal("an unexpected error occurred; the server's log has it under this request's id")
    return current_app.make_response(current_app.handle_user_exception(told))
