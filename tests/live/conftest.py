from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.browsing import CHROMIUM, DRIVER, Page, browser
from tests.serving import Server, serving


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with serving("--served-names", "m", "--log-level", "warning") as running:
        yield running


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """The folder of a browser that has never been anywhere; there has to be a browser."""
    if not (CHROMIUM and DRIVER):
        pytest.skip("needs chromium and chromium-driver")
    return tmp_path


@pytest.fixture
def page(server: Server, profile: Path) -> Iterator[Page]:
    """The page, open. What it loads is all the server's own, and it never complains but of refusals."""
    with browser(profile) as chrome:
        page = Page(chrome, server.url)
        page.open()
        yield page
        assert {
            each["url"] for each in page.requests() if not each["url"].startswith(f"{server.url}/")
        } == set()
        assert [each for each in page.complaints() if "Failed to load resource" not in each] == []
