"""An app with a tuning service."""

from pathlib import Path

import pytest
from flask.testing import FlaskClient

from api import create_app
from api.services import Services
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models
from tuning.service import TuningService


@pytest.fixture
def trainer_client(tuning: TuningService, tmp_path: Path) -> FlaskClient:
    """A client of an app that trains models; clients may name folders below tmp_path/adapters."""
    settings = ServerSettings(adapter_dirs=(str(tmp_path / "adapters"),))
    return create_app(make_models(FakeBackend()), settings, services=Services(tuning=tuning)).test_client()
