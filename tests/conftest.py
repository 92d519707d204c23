"""Fixtures of all tests."""

import os
import random
from collections.abc import Generator, Iterator
from pathlib import Path
from types import MappingProxyType

import pytest
import torch
from flask import Flask
from flask.testing import FlaskClient

from api import create_app
from api.hooks import adapter_sums
from api.hooks.concurrency_limit import PERMITS, Permits
from api.openai.prefix_events import PREFIX_LOGS
from api.tinker.sampling import samples
from settings.groups import ServerSettings
from tests import (
    brief_benchmarks,
    compiled_routes,
    hypothesis_profile,
    missing_compiler,
    patient_checks,
    process_state,
    static_files_once,
)
from tests.fakes.fake_backend import FakeBackend, make_models
from tests.tuning.scripted_service import RecordingAdapters, make_service
from tuning.service import TuningService

brief_benchmarks.shorten()
compiled_routes.remember()
static_files_once.remember()
hypothesis_profile.load()
patient_checks.extend()
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read once, when any test imports Triton


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and call.excinfo:
        missing_compiler.skip_if_it_is_the_cause(report, call.excinfo.value)
    return report


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache folder for the tests; the compiled native library in it is the user's."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home, compiled = tmp_path_factory.mktemp("cache"), caches / "hearth" / "native"
    compiled.mkdir(parents=True, exist_ok=True)
    (home / "hearth").mkdir()
    if os.name == "posix":  # Windows has no such library, and links for few users
        (home / "hearth" / "native").symlink_to(compiled, target_is_directory=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HOME", os.environ.get("HF_HOME") or str(caches / "huggingface"))
        patch.setenv("XDG_CACHE_HOME", str(home))
        yield


@pytest.fixture(scope="module", autouse=True)
def same_process() -> Iterator[None]:
    with process_state.preserved():
        yield


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    """Each test draws the same random numbers in every run, behind whichever other one."""
    torch.manual_seed(0)
    random.seed(0)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
    """What several tests share draws the same random numbers, whichever of them is the first to use it."""
    if fixturedef.scope == "function":
        return (yield)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return (yield)


@pytest.fixture(scope="session")
def app_backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
def backend(app_backend: FakeBackend) -> FakeBackend:
    """As a new one, in each test."""
    app_backend.reset()
    return app_backend


@pytest.fixture(scope="session")
def shared_app(app_backend: FakeBackend) -> Flask:
    """No test may change its routes or views: the next ones would meet them."""
    app = make_app(app_backend)
    app._got_first_request = True  # Flask refuses to change the routes from then on
    app.view_functions = MappingProxyType(app.view_functions)  # type: ignore[assignment]
    return app


@pytest.fixture
def app(app_backend: FakeBackend, shared_app: Flask, backend: FakeBackend) -> Flask:
    """An app with `backend`: one for all tests of a process, because registering its 300 routes takes 20 ms;
    another where a file has a backend of its own.
    """
    if backend is not app_backend:
        return make_app(backend)
    forget_requests(shared_app, backend)
    return shared_app


def forget_requests(app: Flask, backend: FakeBackend) -> None:
    """Give the app what it keeps between requests as create_app does."""
    settings = ServerSettings()
    app.extensions[PERMITS] = Permits(settings.max_concurrent_requests, make_models(backend))
    app.extensions[PREFIX_LOGS] = {}
    adapter_sums.install(app, {})
    samples.install(app)


def make_app(backend: FakeBackend) -> Flask:
    return create_app(make_models(backend), ServerSettings(version="1.2.3"))


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()


@pytest.fixture
def tuning(tmp_path: Path) -> Iterator[TuningService]:
    """A tuning service in tmp_path/tuning whose programs are scripts."""
    service = make_service(tmp_path / "tuning", RecordingAdapters())
    yield service
    service.close()
