"""A server with a store, and one with a tuning service, for the tests of what is stored."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from api import create_app
from api.services import Services
from api.store.store import Store
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models
from tuning.service import TuningService


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "responses.db", max_bytes=10**8, max_age_s=3600)
    yield store
    store.close()


@pytest.fixture
def stored_client(backend: FakeBackend, store: Store) -> FlaskClient:
    return create_app(make_models(backend), ServerSettings(), services=Services(store=store)).test_client()


@pytest.fixture
def tuning_client(backend: FakeBackend, tuning: TuningService) -> FlaskClient:
    return create_app(make_models(backend), ServerSettings(), services=Services(tuning=tuning)).test_client()
