from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome

from tests.live.pages.browser_page import CHROMIUM, DRIVER, Page, browser, visit
from tests.servers.serving import ServerProcess


@pytest.fixture(scope="session")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """A browser for all tests, each of which has its own tab; skips them if none is installed."""
    if not (CHROMIUM and DRIVER):
        pytest.skip("needs chromium and chromium-driver")
    with browser(tmp_path_factory.mktemp("profile")) as chrome:
        yield chrome


@pytest.fixture
def page(server: ServerProcess, chrome: Chrome) -> Iterator[Page]:
    """The open page. It must load everything from the server, and log no error except resources that
    failed.
    """
    with visit(chrome, server.url) as page:
        page.open()
        yield page
        assert {
            each["url"] for each in page.requests() if not each["url"].startswith(f"{server.url}/")
        } == set()
        assert [each for each in page.complaints() if "Failed to load resource" not in each] == []
