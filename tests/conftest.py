"""What every test may ask for."""

import pytest
from flask import Flask
from flask.testing import FlaskClient

from api import create_app
from api.settings import AppSettings
from tests.fake_backend import FakeBackend


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
def app(backend: FakeBackend) -> Flask:
    return create_app(backend, AppSettings(version="1.2.3"))


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()
