from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.batches.batch_server import BatchServer, serving
from tests.fakes.fake_backend import FakeBackend


@pytest.fixture
def server(tmp_path: Path, backend: FakeBackend) -> Iterator[BatchServer]:
    with serving(tmp_path / "tuning", backend) as running:
        yield running
