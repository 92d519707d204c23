"""The Neodim dialect: one route, POST /generate, that answers as the last Neodim Server did.

Three doors: views, for the path is shared with another dialect; told, how an error is said; routes, the rest.
"""

from collections.abc import Callable
from functools import partial

from flask import Blueprint, Response, request

from api.body import decode
from api.neodim.answers import Failure, Report
from api.neodim.bodies import Body
from api.neodim.errors import told
from api.neodim.gpus import Gpus
from api.neodim.origins import permit
from api.neodim.requests import asked, watches
from api.neodim.texts import Texts
from api.neodim.together import Nothing, Together
from api.neodim.writer import ReportWriter
from api.operation import Operation, described
from api.settings import AppSettings
from api.stream import NDJSON, answer
from inference.backend import Backend, Stream

PATH = "/generate"
GENERATE = Operation(
    "Continue a prompt, with a report of what was used and what was cut",
    "The Neodim Server's own route. With `stream` a line for each token comes first, then the report.",
    body=Body,
    answer=Report,
    stream=(NDJSON.mimetype,),
    error=Failure,
)

__all__ = ["routes", "told", "views"]


def views(backend: Backend, settings: AppSettings) -> dict[str, Callable[[], Response]]:
    return {PATH: described(partial(generate, backend, settings), GENERATE)}


def routes(backend: Backend, settings: AppSettings) -> Blueprint:
    """What belongs to the path, which is mounted where it is shared: its answers may be read by any page."""
    blueprint = Blueprint("neodim", __name__)

    @blueprint.after_app_request
    def allow(response: Response) -> Response:
        own = request.path.rstrip("/") == PATH
        return permit(response) if own and not settings.cors_origins else response

    return blueprint


def generate(backend: Backend, settings: AppSettings) -> Response:
    gpus = Gpus(lambda: backend.load().devices)
    body = decode(Body, strict=False)
    texts = Texts(backend)
    request = asked(body, texts, backend, settings)
    looking = watches(body)
    stream: Stream = Nothing(request.sequences)
    if request.length:
        stream = Together(backend.generate(request.generation), looking)
    writer = ReportWriter(request, texts, looking, gpus)
    return answer(stream, writer, NDJSON if body.stream else None, request.sequences)
