from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome

from tests.live.browsing import CHROMIUM, DRIVER, Page, browser, visit
from tests.serving import Server, serving


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with serving("--served-names", "m", "--log-level", "warning") as running:
        yield running


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """A browser for the pages of one file; there has to be one."""
    if not (CHROMIUM and DRIVER):
        pytest.skip("needs chromium and chromium-driver")
    with browser(tmp_path_factory.mktemp("profile")) as chrome:
        yield chrome


@pytest.fixture
def page(server: Server, chrome: Chrome) -> Iterator[Page]:
    """The page, open. What it loads is all the server's own, and it never complains but of refusals."""
    with visit(chrome, server.url) as page:
        page.open()
        yield page
        assert {
            each["url"] for each in page.requests() if not each["url"].startswith(f"{server.url}/")
        } == set()
        assert [each for each in page.complaints() if "Failed to load resource" not in each] == []
