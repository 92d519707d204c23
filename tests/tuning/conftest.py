"""A tuning service whose programs are scripts."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from settings.groups import TuningSettings
from tests.tuning.scripted_service import RecordingAdapters, make_service
from tuning.service import TuningService

MakeService = Callable[..., TuningService]


@pytest.fixture
def adapters() -> RecordingAdapters:
    return RecordingAdapters()


@pytest.fixture
def open_services(tmp_path: Path, adapters: RecordingAdapters) -> Iterator[MakeService]:
    """Opens a service in the test's folder, as often as the server is started."""
    services: list[TuningService] = []

    def open_one(*settings: TuningSettings, **options: Any) -> TuningService:
        services.append(make_service(tmp_path / "tuning", adapters, *settings, **options))
        return services[-1]

    yield open_one
    for service in services:
        service.close()


@pytest.fixture
def service(open_services: MakeService) -> TuningService:
    return open_services()
