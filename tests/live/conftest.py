from collections.abc import Iterator

import pytest

from tests.serving import Server, serving


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with serving("--served-names", "m", "--log-level", "warning") as running:
        yield running
