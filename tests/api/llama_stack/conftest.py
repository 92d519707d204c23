"""An app with a tuning service whose programs are scripts."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from api import create_app
from settings.groups import ServerSettings
from tests.fake_backend import FakeBackend, make_models
from tests.tuning.scripted_service import FakeAdapters, make_service
from tuning.service import TuningService


@pytest.fixture
def tuning(tmp_path: Path) -> Iterator[TuningService]:
    service = make_service(tmp_path / "tuning", FakeAdapters())
    yield service
    service.close()


@pytest.fixture
def trainer_client(tuning: TuningService, tmp_path: Path) -> FlaskClient:
    """A client of an app that trains models; clients may name folders below tmp_path/adapters."""
    settings = ServerSettings(adapter_dirs=(str(tmp_path / "adapters"),))
    return create_app(make_models(FakeBackend()), settings, tuning=tuning).test_client()
