"""The playground: a page to try the model on, at /playground. One door: routes.

The page is the files beside this one, sent as they are. It asks the routes that every client asks, and one of
its own for the machine's figures. It loads nothing from anywhere else; the browser is told to see to that.
"""

from pathlib import Path

from flask import Blueprint, Response, request

from api.errors import reply
from api.files import Files
from api.operation import Operation, described
from api.playground.status import status
from api.settings import AppSettings
from inference.backend import Backend

PAGE = "index.html"
FIGURES = Operation("The machine's figures, as the playground shows them")


def routes(backend: Backend, settings: AppSettings) -> Blueprint:
    blueprint = Blueprint("playground", __name__)
    files = Files(Path(__file__).parent)

    @blueprint.get("/playground")
    def page() -> Response:
        if request.path.endswith("/"):  # the page's links begin where it stands
            return Response(status=302, headers={"Location": "../playground"})
        return files.send(PAGE)

    @blueprint.get("/playground/<path:name>")
    def file(name: str) -> Response:
        return files.send(name)

    def figures() -> Response:
        response = reply(200, status(backend))
        response.headers["Cache-Control"] = "no-store"
        return response

    blueprint.add_url_rule("/playground/status", "status", described(figures, FIGURES))
    return blueprint
