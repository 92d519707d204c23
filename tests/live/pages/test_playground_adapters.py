"""The playground's menu of the model and its adapters, in Chromium, on the real server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import Select

from tests.live.pages.browser_page import DIALECTS, Page, visit
from tests.lora.demo_adapter import peft_answer, save_adapter
from tests.servers.serving import ServerProcess, serving

pytestmark = pytest.mark.slow

PROMPT = "The capital of France is"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_adapter(tmp_path_factory.mktemp("adapters") / "poet", seed=1)


@pytest.fixture(scope="module")
def adapter_server(folder: Path) -> Iterator[ServerProcess]:
    flags = ("--dtype", "float32", "--adapter-dirs", str(folder.parent), "--lora-modules", f"poet={folder}")
    with serving(*flags) as running:
        yield running


@pytest.fixture
def adapter_page(adapter_server: ServerProcess, chrome: Chrome) -> Iterator[Page]:
    with visit(chrome, adapter_server.url) as page:
        page.open()
        yield page
        assert page.complaints() == []


def test_the_adapter_of_the_menu_answers_in_each_dialect(adapter_page: Page, folder: Path) -> None:
    poem = peft_answer(folder, PROMPT, 8)
    menu = Select(adapter_page.find("#model select"))
    assert [option.text for option in menu.options] == ["models/demo", "poet (adapter)"]
    adapter_page.set("temperature", 0)
    adapter_page.set("max_tokens", 8)
    adapter_page.write("Prompt", PROMPT)
    for dialect in DIALECTS:
        adapter_page.choose("dialects", dialect)
        assert answer_of(adapter_page, "poet") == poem.strip()
        assert answer_of(adapter_page, "models/demo") == "Paris."


def answer_of(page: Page, name: str) -> str:
    Select(page.find("#model select")).select_by_value(name)
    return page.generate("retry" if page.answer_texts else "generate")[0].strip()


def test_an_adapter_that_is_loaded_later_joins_the_menu(
    adapter_page: Page, adapter_server: ServerProcess
) -> None:
    read_menu = "return [...document.querySelector('#model select')].map(({ value }) => value)"

    def focus_until(*names: str) -> None:
        adapter_page.browser.execute_script("dispatchEvent(new Event('focus'))")
        adapter_page.until(lambda: adapter_page.browser.execute_script(read_menu) == ["models/demo", *names])

    Select(adapter_page.find("#model select")).select_by_value("poet")
    adapter_server.post("/v1/load_lora_adapter", {"lora_name": "cook", "lora_path": "poet"})
    focus_until("poet", "cook")
    assert adapter_page.find("#model select").get_property("value") == "poet"
    adapter_server.post("/v1/unload_lora_adapter", {"lora_name": "poet"})
    focus_until("cook")
    assert adapter_page.find("#model select").get_property("value") == "models/demo"
