"""The reasoning of a model in the playground."""

import pytest
from selenium.webdriver import Chrome

from inference.events import Finished, Started, Token
from tests.api.conftest import served
from tests.fakes.fake_backend import FakeBackend, Script
from tests.live.pages.browser_page import visit

pytestmark = pytest.mark.slow

REASONED: Script = [
    Started(0, prompt_tokens=3, cached_tokens=0),
    Token(0, 1, "", reasoning="Two"),
    Token(0, 2, "", reasoning=" and two."),
    Token(0, 3, "It is"),
    Token(0, 4, " 4."),
    Finished(0, "stop", num_tokens=4, num_reasoning_tokens=2),
]


def test_reasoning_is_shown_apart_from_the_answer_when_it_is_opened(chrome: Chrome) -> None:
    with served(FakeBackend(REASONED)) as live, visit(chrome, live.http_server.url) as page:
        page.open()
        page.choose("dialects", "openai")
        page.choose("modes", "chat")
        page.write("Message", "2 + 2?")
        assert page.generate() == ["It is 4."]
        assert not page.is_visible(".reasoning-text")
        page.find(".reasoning summary").click()
        assert page.text(".reasoning-text") == "Two and two."


def test_an_answer_without_reasoning_has_no_place_for_it(chrome: Chrome) -> None:
    with served(FakeBackend()) as live, visit(chrome, live.http_server.url) as page:
        page.open()
        page.choose("dialects", "openai")
        page.choose("modes", "chat")
        page.write("Message", "hi")
        assert page.generate() == ["Hello world"]
        assert not page.is_visible(".reasoning")
