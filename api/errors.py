"""Error responses: the default JSON body, and the headers of an error.

Knows ServerError and werkzeug's HTTPException. A dialect's blueprint renders errors in its own format.
"""

import logging
import math
import re
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any, ClassVar

from flask import Blueprint, Flask, Response, current_app, g, request
from flask.globals import request_ctx
from werkzeug.exceptions import HTTPException, MethodNotAllowed
from werkzeug.routing import Rule

from api.body.json_body import MIMETYPE, encode
from inference.errors import (
    Internal,
    NotFound,
    NotImplementedHere,
    Overloaded,
    ServerError,
    TooLarge,
    Unavailable,
)
from inference.process.full_disk import is_disk_full
from inference.process.memory.memory_shortage import is_memory_shortage
from inference.process.rust_panic import raises_panics

MESSAGES = {
    404: "there is no such route: GET / lists all routes",
    405: "this route does not support that method: the Allow header lists the supported ones",
}
# Routes of APIs that are not served. Their clients can be told to speak OpenAI's.
UNSERVED_APIS = {
    "Ollama": re.compile(r"/api/(chat|generate|tags|show|ps|pull|version|embed|embeddings)"),
    "Anthropic": re.compile(r"/v1/messages(/count_tokens)?"),
}

# The names of errors that clients of OpenAI and vLLM know; another error has the name of its HTTP status.
ERROR_TYPES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    404: "NotFoundError",
    429: "RateLimitError",
    501: "NotImplementedError",
}

log = logging.getLogger(__name__)

ErrorFormat = Callable[[ServerError], tuple[int, Any]]  # returns the status and the body


class WrongMethod(ServerError):
    status: ClassVar[int] = 405


class WrongContent(ServerError):
    """The body's Content-Type or Content-Encoding is not supported."""

    status: ClassVar[int] = 415


class OtherHttpError(ServerError):
    """An HTTPException below 500 whose status is not in HTTP_ERRORS."""

    status: ClassVar[int] = 400


HTTP_ERRORS: dict[int, type[ServerError]] = {
    404: NotFound,
    405: WrongMethod,
    413: TooLarge,
    415: WrongContent,
    501: NotImplementedHere,
    503: Unavailable,
}


class Forbidden(ServerError):
    """The request's Host or Origin may not use the server."""

    status: ClassVar[int] = 403


class SlowBody(ServerError):
    """The request's body arrived too slowly."""

    status: ClassVar[int] = 408


class BodyNotStored(ServerError):
    """The request's body could not be written to disk. The status is not 503, which means a busy model."""

    status: ClassVar[int] = 507

    def __init__(self) -> None:
        super().__init__("the server cannot store the body: its temporary folder is full or not writable")


class DiskFull(ServerError):
    """The system refuses the room on the disk that a request needs."""

    status: ClassVar[int] = 507

    def __init__(self) -> None:
        super().__init__("the server's disk is full: free some of it, and send the request again")


class Draining(Unavailable):
    """The server is shutting down: it finishes running requests and refuses new ones."""

    def __init__(self, retry_after: float) -> None:
        super().__init__("the server is shutting down: retry later, or use another server")
        self.retry_after = retry_after


class OutOfMemory(Unavailable):
    """The system refuses the memory that a request needs. Answers that end give memory back."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(
            f"the server has too little memory for this request: try again in {retry_after:.0f} s, "
            "or send a smaller one"
        )
        self.retry_after = retry_after


def error_type(status: int) -> str:
    return ERROR_TYPES.get(status) or HTTPStatus(status).phrase


def envelope(message: str, status: int, detail: Any = None) -> dict[str, Any]:
    """The default body of an error, on routes of no dialect.

    Clients of OpenAI read the fields of `error`, those of Llama Stack `error.message`, `error.detail` or
    `detail`.
    """
    detail = message if detail is None else detail
    openai_fields = {"message": message, "type": error_type(status), "param": None, "code": status}
    return {"error": {"detail": detail} | openai_fields, "detail": detail}


def json_response(status: int, body: Any, error: ServerError | None = None) -> Response:
    """A JSON response, with Retry-After or WWW-Authenticate if `error` calls for one."""
    return Response(encode(body), status, error_headers(error), content_type=MIMETYPE)


def error_headers(error: ServerError | None) -> dict[str, str]:
    headers = {}
    retry_after = getattr(error, "retry_after", None)
    if retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(retry_after)))
    if error is not None and error.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="hearth"'
    return headers


def render_server_errors(
    blueprint: Blueprint, error_format: ErrorFormat
) -> Callable[[ServerError], Response]:
    """Render every ServerError of the blueprint's routes with `error_format`; returns the renderer."""

    def render(error: ServerError) -> Response:
        status, body = error_format(error)
        return json_response(status, body, error)

    blueprint.register_error_handler(ServerError, render)
    return render


def render_errors(blueprint: Blueprint, error_format: ErrorFormat) -> None:
    """Render every ServerError and HTTPException of the blueprint's routes with `error_format`."""
    render = render_server_errors(blueprint, error_format)

    def render_http_error(error: HTTPException) -> Response:
        status = error.code or 500
        kind = HTTP_ERRORS.get(status, Internal if status >= 500 else OtherHttpError)
        return _with_error_headers(render(kind(_message(error))), error)

    blueprint.register_error_handler(HTTPException, render_http_error)


def install(app: Flask, overloaded: Callable[[], Overloaded]) -> None:
    """`overloaded` makes the error of a request that waits until an answer ends."""
    app.register_error_handler(ServerError, _render_error)
    app.register_error_handler(HTTPException, _render_http_error)
    app.register_error_handler(Exception, partial(_render_unexpected, overloaded))
    app.dispatch_request = raises_panics(app.dispatch_request)  # type: ignore[method-assign]


def _render_error(error: ServerError) -> Response:
    return json_response(error.status, envelope(error.message, error.status), error)


def _render_http_error(error: HTTPException) -> Response:
    """Render an HTTP error and keep its headers (Allow, Location)."""
    if request.url_rule is None and (rule := _rule_of_dialect(error)):
        request.url_rule = rule  # its blueprint's handlers apply
        return current_app.make_response(current_app.handle_http_exception(error))
    status = error.code or 500
    body = envelope(_message(error), status, error.name)
    return _with_error_headers(json_response(status, body), error)


def _rule_of_dialect(error: HTTPException) -> Rule | None:
    """The rule whose dialect the client meant.

    It is that of the path as it was sent, in which %2F divides no names, for any method that the path has.
    """
    method = next(iter(error.valid_methods or ()), None) if isinstance(error, MethodNotAllowed) else None
    path = request.environ.get("RAW_URI", "").partition("?")[0].removeprefix(request.root_path)
    adapter = request_ctx.url_adapter
    try:
        return adapter.match(path, method, return_rule=True)[0] if adapter else None
    except HTTPException:
        return None


def _message(error: HTTPException) -> str:
    message = MESSAGES.get(error.code or 500, error.description or error.name)
    for name, routes in UNSERVED_APIS.items():
        if error.code == 404 and routes.fullmatch(request.path):
            return f"{message}. {name}'s API is not served: use a client of OpenAI's, at /v1"
    return message


def _with_error_headers(response: Response, error: HTTPException) -> Response:
    response.headers.extend([(name, value) for name, value in error.get_headers() if name != "Content-Type"])
    return response


def _render_unexpected(overloaded: Callable[[], Overloaded], error: Exception) -> Response:
    """Log the traceback of a bug. The client gets only the request id, in the X-Request-Id header."""
    log.error("unexpected error: request id=%s", g.get("request_id"), exc_info=error)
    server_error: ServerError = Internal(
        "an unexpected error occurred: search the server's log for the id in X-Request-Id"
    )
    if is_memory_shortage(error):
        server_error = OutOfMemory(overloaded().retry_after)
    elif is_disk_full(error):
        server_error = DiskFull()
    return current_app.make_response(current_app.handle_user_exception(server_error))
