"""The HTTP server with scripted answers, for a process that tests fork and end by signals."""

import logging
import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path

from api import create_app
from api.server.early_checks import EarlyChecks
from api.server.serve import serve
from settings.groups import HttpSettings, ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models, say
from tests.fakes.plain_dialect import routes


def run(pause_s: float, drain_s: float, port: int, log_file: Path, urls: Connection) -> None:
    """Serve until a signal; sends the address when it is ready. pause_s: before each token of an answer."""
    os.dup2(os.open(log_file, os.O_WRONLY | os.O_CREAT), sys.stderr.fileno())
    logging.basicConfig(level="INFO")
    backend = FakeBackend(say(*"abcdefgh", pause_s=pause_s))
    models = make_models(backend)
    app = create_app(models, ServerSettings())
    app.register_blueprint(routes(backend))
    checks = EarlyChecks(lambda method, path: 1000)
    settings = HttpSettings(port=port, drain_seconds=drain_s)
    sys.exit(serve(app, models, checks, settings, lambda server: urls.send(server.url)))
