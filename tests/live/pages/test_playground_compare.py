"""Models side by side in the playground, in Chromium: two on another server, and two whose servers fail."""

import json
from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import Select

from scripts.loopback import free_port
from tests.live.pages.browser_page import Page, visit
from tests.remote.fake_upstream import FakeUpstream, Reply, document, running_loop, start
from tests.remote.openai_chunks import text_chunk
from tests.servers.serving import ServerProcess, serving

pytestmark = pytest.mark.slow

NAMES = ["left", "right", "down"]
BROKEN = "broken"  # its server breaks off in the middle of each answer
BEGINNING = "The capital of"


@pytest.fixture(scope="module")
def broken() -> Iterator[FakeUpstream]:
    upstream = FakeUpstream()
    upstream.reply = lambda sent: (
        document({"data": [{"id": BROKEN, "max_model_len": 512}]})
        if sent.method == "GET"
        else Reply([text_chunk(BEGINNING), 0.3, "reset"])
    )
    with running_loop() as loop:
        start(upstream, loop)
        yield upstream


@pytest.fixture(scope="module")
def front(server: ServerProcess, broken: FakeUpstream) -> Iterator[ServerProcess]:
    addresses = [server.url, server.url, f"http://127.0.0.1:{free_port()}"]
    entries = [
        {"base_model": "models/demo", "display_name": name, "inference_server": f"hearth:{address}"}
        for name, address in zip(NAMES, addresses, strict=True)
    ]
    entries.append({"base_model": BROKEN, "inference_server": f"vllm:{broken.url}/v1"})
    options = ("--tuning-dir", "off", "--responses-store", "off", "--log-level", "warning")
    with serving("--models", json.dumps(entries), *options) as front:
        yield front


@pytest.fixture
def page(front: ServerProcess, chrome: Chrome) -> Iterator[Page]:
    """The open page, which compares the first two models."""
    with visit(chrome, front.url) as page:
        page.open()
        compare_with(page, "right")
        yield page
        assert [each for each in page.complaints() if "Failed to load resource" not in each] == []


def compare_with(page: Page, name: str) -> None:
    page.find("#compare summary").click()
    page.find(f"#compare-models input[value={name}]").click()
    page.find("#compare summary").click()


def test_each_model_has_a_column_with_its_own_speed(page: Page) -> None:
    page.set("temperature", 0)
    page.write("Prompt", "The capital of France is")
    assert [text.strip() for text in page.generate()] == ["Paris."] * 2
    assert page.texts(".picker") == ["left", "right"]
    assert all("tokens/s" in text for text in page.texts(".column-speed"))
    sent = [json.loads(each["postData"]) for each in page.requests() if each["method"] == "POST"]
    generated = [body for body in sent if "stream" in body]
    assert [body["model"] for body in generated] == ["left", "right"]


def test_sampled_columns_have_the_same_seed(page: Page) -> None:
    page.write("Prompt", "Once upon a time")
    page.set("max_tokens", 16)
    first, second = page.generate()
    assert first == second != ""


def test_a_column_is_stopped_by_itself(endless: Page) -> None:
    compare_with(endless, "adapter")
    endless.press("generate")
    endless.until(
        lambda: all(len(text) > 20 for text in endless.answer_texts) and len(endless.answer_texts) == 2
    )
    endless.all(".completion-header button")[0].click()
    endless.until(lambda: endless.texts(".completion.streaming .picker") == ["adapter"])
    before = endless.answer_texts
    endless.until(lambda: len(endless.answer_texts[1]) > len(before[1]))
    assert endless.answer_texts[0] == before[0] and endless.running
    endless.press("stop")
    endless.until(lambda: not endless.running)


def test_a_column_fails_by_itself(page: Page) -> None:
    compare_with(page, "down")
    page.set("temperature", 0)
    page.write("Prompt", "The capital of France is")
    texts = page.generate()
    assert [text.strip() for text in texts] == ["Paris.", "Paris.", ""]
    errors = page.texts(".column-error")
    assert errors[:2] == ["", ""] and "down" in errors[2]


def test_a_column_whose_server_breaks_off_keeps_its_text_and_says_why(page: Page) -> None:
    compare_with(page, BROKEN)
    page.set("temperature", 0)
    page.write("Prompt", "The capital of France is")
    texts = page.generate()
    assert [text.strip() for text in texts] == ["Paris.", "Paris.", BEGINNING]
    errors = page.texts(".column-error")
    assert errors[:2] == ["", ""] and "the server behind broken sent a broken answer" in errors[2]


@pytest.mark.parametrize("dialect", ["llama_stack", "openai"])
def test_an_answer_whose_server_breaks_off_stays_with_its_reason(
    dialect: str, front: ServerProcess, chrome: Chrome
) -> None:
    with visit(chrome, front.url) as page:
        page.open()
        page.choose("dialects", dialect)
        Select(page.find("#model select")).select_by_value(BROKEN)
        page.write("Prompt", "The capital of France is")
        assert [text.strip() for text in page.generate()] == [BEGINNING]
        notice = page.text("#notice")
        assert "The answer broke off" in notice and "the server behind broken sent a broken answer" in notice


def test_dialects_that_name_no_model_cannot_compare(page: Page) -> None:
    disabled = {each.get_property("value") for each in page.all("#dialects input:disabled")}
    assert disabled == {"tgi", "neodim"}


def test_the_picked_column_is_continued(page: Page) -> None:
    page.set("temperature", 0)
    page.write("Prompt", "The capital of France is")
    page.generate()
    page.all(".completion")[1].click()
    assert "selected" in page.all(".completion")[1].get_attribute("class")
    page.find(".completion.selected .completion-tools button").click()
    assert page.value("Prompt") == "The capital of France is Paris."
