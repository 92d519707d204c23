"""An app whose training runs are scripted."""

from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient

from api import create_app
from api.services import Services
from settings.groups import ServerSettings
from tests.api.tinker.scripted_runs import ADAPTER, ScriptedRuns, service_of
from tests.fakes.fake_backend import FakeAdapters, FakeBackend, make_models


@pytest.fixture
def runs() -> ScriptedRuns:
    return ScriptedRuns()


@pytest.fixture
def fake_backend() -> Iterator[FakeBackend]:
    backend = FakeBackend()
    backend.lora = FakeAdapters(ADAPTER)
    yield backend
    backend.close()


@pytest.fixture
def api(runs: ScriptedRuns, fake_backend: FakeBackend) -> FlaskClient:
    settings = ServerSettings(version="1.2.3", max_body_bytes=1_000_000)
    return create_app(
        make_models(fake_backend, "alias"), settings, services=Services(tuning=service_of(runs))
    ).test_client()
