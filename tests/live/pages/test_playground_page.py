"""The playground around the text: errors, the key, the command, screens, colours, accessible names."""

import json

import pytest
from selenium.webdriver import Chrome, Keys

from inference.backend_info import BackendLoad, Device
from inference.errors import Unavailable
from tests.api.conftest import served
from tests.fakes.fake_backend import FakeBackend, say
from tests.live.pages.browser_page import DIALECTS, SENT_TO, Page, visit

GB = 10**9
NAMELESS = """
    const isNameless = (each) =>
        !each.textContent.trim() && !each.getAttribute("aria-label") && !each.labels?.length;
    return [...document.querySelectorAll("button, input, select, textarea")]
        .filter(isNameless).map((each) => each.outerHTML);
"""
OVERFLOWS = """
    return ["html", "body", ".main", ".bar", ".top", ".panel-body"].filter((name) => {
        const each = document.querySelector(name);
        return each.scrollWidth > each.clientWidth;
    });
"""
EDGES = """
    const seen = document.querySelector(arguments[0]);
    const all = [seen, ...seen.querySelectorAll(":not(pre *)")].map((each) => each.getBoundingClientRect());
    return [Math.min(...all.map(({ left }) => left)), Math.max(...all.map(({ right }) => right))];
"""

pytestmark = pytest.mark.slow


def test_an_error_is_shown_with_the_servers_message(page: Page) -> None:
    page.set("top_p", 0.5)
    for dialect in DIALECTS:
        page.choose("dialects", dialect)
        page.set("temperature", -3)
        page.press("generate")
        page.until(lambda: page.is_visible("#notice"))
        assert "temperature" in page.text("#notice") and not page.running, dialect
        page.set("temperature", 0)
        assert page.generate() and not page.is_visible("#notice"), dialect


def test_an_answer_that_breaks_off_is_kept_and_explained(chrome: Chrome) -> None:
    script = [*say("Half", " of", " it")[:-1], Unavailable("the model is gone")]
    with served(FakeBackend(script)) as live, visit(chrome, live.http_server.url) as page:
        page.open()
        assert page.generate() == ["Half of it"]
        assert page.text("#notice").startswith("The answer broke off\nthe model is gone")


def test_an_empty_prompt_is_not_sent(page: Page) -> None:
    page.press("clear")
    page.press("generate")
    assert page.until(lambda: page.text("#notice")).startswith("Not sent")


def test_a_schema_that_is_not_json_is_reported(page: Page) -> None:
    page.set("response_format", "schema")
    page.set("format_spec", "{")
    page.press("generate")
    assert page.until(lambda: page.text("#notice")).startswith("The JSON cannot be read")


def test_a_key_is_requested_sent_and_kept_for_the_tab(chrome: Chrome) -> None:
    locked = served(FakeBackend(say("Hello")), api_keys=("secret",))
    with locked as live, visit(chrome, live.http_server.url) as page:
        chrome.get(f"{page.url}/playground")
        page.until(lambda: page.is_visible("#notice") and page.is_visible("#key-value"))
        page.find("#key-value").send_keys("secret", Keys.ENTER)
        page.until(lambda: page.text("#model"))
        assert page.generate() == ["Hello"]
        page.open()
        assert page.generate() == ["Hello"]
        stored = chrome.execute_script("return JSON.stringify(localStorage)")
        assert "secret" not in stored and "secret" not in chrome.current_url


def test_the_text_is_restored_on_the_next_visit(page: Page) -> None:
    page.write("Prompt", "Kept")
    page.set("top_k", 17)
    page.choose("dialects", "tgi")
    page.browser.refresh()
    page.until(lambda: page.text("#model"))
    assert page.value("Prompt") == "Kept" and page.find("#param-top_k").get_property("value") == "17"
    assert page.find("#dialects [value=tgi]").is_selected()


def test_the_command_can_be_pasted(page: Page) -> None:
    page.write("Prompt", "It's")
    page.press("curl-open")
    page.find("#curl-streamed").click()
    for dialect in DIALECTS:
        page.choose("curl-dialects", dialect)
        command = page.text("#curl-text")
        assert command.startswith("curl -s '") and "It'\\''s" in command
        body = json.loads(command.partition("-d '")[2].removesuffix("'").replace("'\\''", "'"))
        path = SENT_TO[dialect].removesuffix("_stream")
        assert f"{page.url}{path}'" in command and "It's" in body.values()


def test_a_narrow_screen_has_no_horizontal_scroll(page: Page) -> None:
    metrics = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    page.set("n", 3)
    page.generate()
    assert page.browser.execute_script(OVERFLOWS) == []
    page.press("panel-open")
    assert page.browser.execute_script(OVERFLOWS) == []
    page.press("panel-close")
    for opener, opened in {"curl-open": "#curl", "key": ".key-form"}.items():
        page.browser.execute_script("document.querySelector('dialog').close()")
        page.press(opener)
        left_edge, right_edge = page.browser.execute_script(EDGES, opened)
        assert left_edge >= 0 and right_edge <= 360
    assert page.browser.execute_script("return document.documentElement.scrollWidth") == 360


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_colours_follow_the_system_and_the_switch(page: Page, scheme: str) -> None:
    feature = {"name": "prefers-color-scheme", "value": scheme}
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    shade = {"light": lambda: brightness(page) > 200, "dark": lambda: brightness(page) < 60}
    page.until(shade[scheme])
    page.press("theme")
    page.until(shade["light"])
    page.press("theme")
    page.until(shade["dark"])


def brightness(page: Page) -> float:
    colour = page.find("body").value_of_css_property("background-color")
    red, green, blue = (float(each) for each in colour.partition("(")[2].rstrip(")").split(",")[:3])
    return (red + green + blue) / 3


def test_every_control_has_a_name_and_every_parameter_an_explanation(page: Page) -> None:
    assert page.browser.execute_script(NAMELESS) == []
    explanations = [each.get_property("textContent") for each in page.all(".param .hint")]
    assert len(explanations) > 40 and all(explanations)


def test_the_machines_memory_is_shown(page: Page) -> None:
    words = page.until(lambda: page.text("#machine"))
    assert "RAM" in words and " GB" in words and "running" in words and "GPU" not in words


class WithGpu(FakeBackend):
    def current_load(self) -> BackendLoad:
        gpu = Device("Some GPU", total=80 * GB, free=20 * GB, reserved=50 * GB, allocated=40 * GB)
        return BackendLoad(running=3, waiting=1, kv_usage=0.5, devices=(gpu,))


def test_a_gpus_memory_is_shown(chrome: Chrome) -> None:
    with served(WithGpu()) as live, visit(chrome, live.http_server.url) as page:
        page.open()
        words = page.until(lambda: page.text("#machine"))
        assert words.startswith("GPU · Some GPU\n60.0 of 80.0 GB, 50.0 by this server\nRAM")
        assert "3 running, 1 waiting, KV cache 50 % full" in words
