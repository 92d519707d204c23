"""Chromium with the playground open, for tests that use the page as a person does."""

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
TIMEOUT_S = 120
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-default-apps",
    "--disable-features=BackForwardCache,SpareRendererForSitePerProcess,Translate",  # more renderers
    "--mute-audio",
    "--window-size=1280,900",
)
DIALECTS = ("llama_stack", "openai", "tgi", "neodim")
SENT_TO = {
    "llama_stack": "/inference/completion",
    "openai": "/v1/completions",
    "tgi": "/generate_stream",
    "neodim": "/generate",
}
LOGS = ("browser", "performance")
IS_VISIBLE = "return document.querySelector(arguments[0])?.checkVisibility() ?? false"
TEXTS = """
    const textOf = (each) => (each.checkVisibility() ? each.innerText.trim().replace(/\\n+/g, "\\n") : "");
    return [...document.querySelectorAll(arguments[0])].map(textOf);
"""
TYPE = """
    const field = document.querySelector(arguments[0]), value = arguments[1];
    if (field.type === "checkbox") field.checked = value;
    else field.value = value;
    for (const name of ["input", "change"]) field.dispatchEvent(new Event(name));
"""


class Page:
    """The page in a browser."""

    def __init__(self, browser: Chrome, url: str) -> None:
        self.browser = browser
        self.url = url
        self.messages: list[dict[str, Any]] = []

    def open(self) -> None:
        self.browser.get(f"{self.url}/playground")
        self.until(lambda: self.text("#model"))

    def find(self, selector: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """What the page displays of the elements at this moment. Selenium's text sends a program for each."""
        return list(self.browser.execute_script(TEXTS, selector))

    def text(self, selector: str) -> str:
        """What the page displays of the first element; "" if there is none."""
        return next(iter(self.texts(selector)), "")

    def until(self, claim: Callable[[], Any]) -> Any:
        """Wait until the claim is true; the page may replace an element while it is read."""
        ignored = (StaleElementReferenceException,)
        return WebDriverWait(self.browser, TIMEOUT_S, 0.05, ignored).until(lambda _: claim())

    def is_visible(self, selector: str) -> bool:
        """Whether the page displays the element. Selenium's is_displayed sends a program each time."""
        return bool(self.browser.execute_script(IS_VISIBLE, selector))

    def choose(self, home: str, value: str) -> None:
        """Choose one of a few options: the mode, the dialect."""
        self.find(f"#{home} label:has([value={value}])").click()

    def set(self, param: str, value: object) -> None:
        """Sets a parameter, even one in a closed section."""
        self.browser.execute_script(TYPE, f"#param-{param}", value)

    def has(self, param: str) -> bool:
        """Whether the dialect has the parameter."""
        return not self.find(f".param:has(#param-{param})").get_property("hidden")

    def write(self, label: str, text: str) -> None:
        field = self.find(f"textarea[aria-label='{label}']")
        field.clear()
        field.send_keys(text)

    def value(self, label: str) -> str:
        return self.find(f"textarea[aria-label='{label}']").get_property("value")

    def press(self, button: str) -> None:
        self.until(lambda: self.is_visible(f"#{button}"))
        self.until(lambda: self.find(f"#{button}").click() or True)  # the page may replace it meanwhile

    @property
    def running(self) -> bool:
        return self.is_visible("#stop")

    @property
    def answer_texts(self) -> list[str]:
        return self.texts(".completion-text")

    def generate(self, button: str = "generate") -> list[str]:
        self.press(button)
        self.until(lambda: not self.running)
        return self.answer_texts

    def requests(self) -> list[dict[str, Any]]:
        """The requests that the page has sent so far, as the DevTools protocol reports them: url, method and
        more.
        """
        for line in self.browser.get_log("performance"):
            self.messages.append(json.loads(line["message"])["message"])
        sent = [each["params"] for each in self.messages if each["method"] == "Network.requestWillBeSent"]
        return [each["request"] for each in sent if each["documentURL"].startswith(self.url)]

    def complaints(self) -> list[str]:
        return [line["message"] for line in self.browser.get_log("browser") if line["level"] != "INFO"]


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Chrome]:
    options = ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chrome = Chrome(options=options, service=Service(DRIVER))
    try:
        yield chrome
    finally:
        chrome.quit()


@contextlib.contextmanager
def visit(chrome: Chrome, url: str) -> Iterator[Page]:
    """The browser's only tab, without what other tests have left: cookies, storage, logs, another screen."""
    chrome.execute_cdp_cmd("Network.clearBrowserCookies", {})
    chrome.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": url, "storageTypes": "all"})
    for log in LOGS:
        chrome.get_log(log)
    try:
        yield Page(chrome, url)
    finally:
        chrome.execute_script("try { sessionStorage.clear(); } catch {}")  # about:blank has none
        chrome.get("about:blank")
        chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
