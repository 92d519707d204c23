"""The page /tuning: train on a file, watch the loss, compare answers. Entry point: make_blueprint.

The files of this folder are sent unchanged. The page calls OpenAI's routes of files, jobs and chats as any
client does, and shares modules and colours with the playground.
"""

from pathlib import Path

from flask import Blueprint, Response

from api.static_pages import StaticFiles
from inference.models import Models
from settings.groups import ServerSettings

PAGE = "index.html"


def make_blueprint(models: Models, settings: ServerSettings) -> Blueprint:
    blueprint = Blueprint("tuning", __name__)
    files = StaticFiles(Path(__file__).parent)

    @blueprint.get("/tuning")
    def page() -> Response:
        return files.send_page(PAGE)

    @blueprint.get("/tuning/<path:name>")
    def file(name: str) -> Response:
        return files.send(name)

    return blueprint
