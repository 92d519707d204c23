"""A browser, and the open playground of a real server or of one whose answers take minutes."""

from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome

from tests.api.conftest import served
from tests.fakes.fake_backend import FakeAdapters, FakeBackend, say
from tests.live.pages.browser_page import CHROMIUM, DRIVER, Page, browser, visit
from tests.servers.serving import ServerProcess

ENDLESS_WORDS = (" and so on",) * 20_000


@pytest.fixture(scope="session")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """A browser for all tests, which use it one after another; skips them if none is installed."""
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


@pytest.fixture
def endless(chrome: Chrome) -> Iterator[Page]:
    """The open page of a model, and of an adapter of it, whose answers take minutes."""
    backend = FakeBackend(say(*ENDLESS_WORDS, pause_s=0.01))
    backend.lora = FakeAdapters("adapter")
    with served(backend) as live, visit(chrome, live.http_server.url) as page:
        page.open()
        yield page
