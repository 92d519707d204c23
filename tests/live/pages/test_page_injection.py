"""Names, answers and errors that are HTML, in Chromium: the pages show them as text, and run none of it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, Keys

from inference.errors import BadRequest
from tests.api.conftest import served
from tests.fakes.fake_backend import FakeAdapters, FakeBackend, say
from tests.live.pages.browser_page import Page, visit
from tests.tuning.scripted_service import make_service

pytestmark = pytest.mark.slow

IMAGE = "<img src=x onerror='window.injected=1'>"
TEXT = f"{IMAGE}<svg onload='window.injected=1'></svg>[a](javascript:window.injected=1)</textarea><h1>x</h1>"
MODEL = f"fake/{IMAGE}"
ADAPTER = "<b onmouseover=window.injected=1>adapter</b>"
INJECTED = """
    const isForeign = (each) => each.tagName === "H1" && each.textContent === "x"
        || [...each.attributes].some(({name, value}) => /^on|^javascript:/i.test(name + value))
        || each.getAttribute("href")?.startsWith("javascript:");
    const foreign = [...document.querySelectorAll("img, h1, b, a, svg")].filter(isForeign);
    return [window.injected ?? 0, foreign.length];
"""


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> FakeBackend:
    model = getattr(request, "param", MODEL)
    backend = FakeBackend(lambda request: say(TEXT), model_id=model)
    backend.lora = FakeAdapters(ADAPTER)
    return backend


@pytest.fixture
def page(chrome: Chrome, backend: FakeBackend, tmp_path: Path) -> Iterator[Page]:
    """A page of the server. In the end nothing was run, and nothing loaded from elsewhere."""
    tuning = make_service(tmp_path / "tuning", backend.lora)
    with served(backend, tuning=tuning) as live, visit(chrome, live.http_server.url) as page:
        yield page
        assert chrome.execute_script(INJECTED) == [0, 0]
        assert all(each["url"].startswith(f"{page.url}/") for each in page.requests())
    tuning.close()


def test_the_playground_shows_names_and_answers_as_text(page: Page) -> None:
    page.open()
    assert MODEL in page.text("#model")
    page.write("Prompt", TEXT)
    (text,) = page.generate()
    assert IMAGE in text and "[a](javascript:" in text


def test_the_playground_shows_an_error_that_repeats_a_text(page: Page, backend: FakeBackend) -> None:
    page.open()
    backend.error = BadRequest("prompt", "is refused", TEXT)
    page.write("Prompt", TEXT)
    page.press("generate")
    page.until(lambda: IMAGE in page.text("main"))


def test_columns_show_the_names_of_their_models_as_text(page: Page) -> None:
    page.open()
    page.find("#compare summary").click()
    page.find("#compare-models input:not(:checked)").click()
    page.find("#compare summary").click()
    page.write("Prompt", TEXT)
    texts = page.generate()
    assert len(texts) == 2 and all(IMAGE in text for text in texts)
    assert page.texts(".picker") == [MODEL, ADAPTER]


@pytest.mark.parametrize("backend", ["fake/model"], indirect=True)  # as the jobs know it
def test_the_page_for_tuning_shows_names_rows_and_answers_as_text(page: Page, tmp_path: Path) -> None:
    page.browser.get(f"{page.url}/tuning")
    page.until(lambda: page.text("#model"))
    path = tmp_path / "<img src=x onerror=injected=1>.jsonl"
    row = {"messages": [{"role": "user", "content": TEXT}, {"role": "assistant", "content": TEXT}]}
    path.write_text(json.dumps(row) + "\n")
    page.find("#file").send_keys(str(path))
    page.until(lambda: page.text("#file-name") == path.name)
    page.until(lambda: page.find("#start").is_enabled())
    page.find("#start").click()
    page.until(lambda: page.is_visible("#question"))
    page.find("#question").send_keys(TEXT, Keys.ENTER)
    page.until(lambda: [IMAGE in text for text in page.texts(".answer")] == [True, True])
