"""The playground: a page to try the model on, at /playground. One door: routes.

The page is the files beside this one, sent as they are. It asks the routes that every client asks, and one of
its own for the machine's figures. It loads nothing from anywhere else; the browser is told to see to that.
"""

from flask import Blueprint, Response, request

from api.errors import reply
from api.playground.files import PAGE, files
from api.playground.status import status
from api.settings import AppSettings
from inference.backend import Backend
from inference.errors import NotFound

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # kept, and asked about each time: the ETag says whether it is still right
}


def routes(backend: Backend, settings: AppSettings) -> Blueprint:
    blueprint = Blueprint("playground", __name__)
    known = files()

    def send(name: str) -> Response:
        """Only what was found at the start can be had: a name is looked up, never a path."""
        if name not in known:
            raise NotFound(f"the playground has no file {name[:80]!r}")
        file = known[name]
        response = Response(file.content, headers=HEADERS, content_type=file.kind)
        response.set_etag(file.etag)
        response.make_conditional(request)
        return response

    @blueprint.get("/playground")
    def page() -> Response:
        if request.path.endswith("/"):  # the page's links begin where it stands
            return Response(status=302, headers={"Location": "../playground"})
        return send(PAGE)

    @blueprint.get("/playground/<path:name>")
    def file(name: str) -> Response:
        return send(name)

    @blueprint.get("/playground/status")
    def figures() -> Response:
        response = reply(200, status(backend))
        response.headers["Cache-Control"] = "no-store"
        return response

    return blueprint
