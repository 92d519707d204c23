"""One server with the demo model for all tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.servers.serving import ServerProcess, serving


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    with serving("--served-names", "m", "--log-level", "warning") as running:
        yield running
