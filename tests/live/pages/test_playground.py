"""Writing in the playground, in Chromium, on the real server with the demo model."""

import pytest
from selenium.webdriver import ActionChains, Keys

from tests.live.pages.browser_page import DIALECTS, SENT_TO, Page

# Whether the page is scrolled, and to its end.
PLACE = """
    const main = document.querySelector(".main");
    return [main.scrollTop > 0, main.scrollHeight - main.clientHeight - main.scrollTop < 2];
"""

pytestmark = pytest.mark.slow


def start_answer(page: Page) -> None:
    """Starts an answer of the endless page."""
    page.press("generate")
    page.until(lambda: page.running and len("".join(page.answer_texts)) > 20)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_prompt_is_answered_in_each_dialect(page: Page, dialect: str) -> None:
    page.choose("dialects", dialect)
    page.set("temperature", 0)
    page.write("Prompt", "The capital of France is")
    assert [text.strip() for text in page.generate()] == ["Paris."]
    urls = [each["url"] for each in page.requests() if each["method"] == "POST"]
    assert page.url + SENT_TO[dialect] in urls
    assert page.complaints() == []


def test_the_same_seed_gives_the_same_answer_in_each_dialect(page: Page) -> None:
    page.write("Prompt", "Once upon a time")
    page.set("seed", 11)
    page.set("temperature", 1.2)
    page.set("max_tokens", 24)
    texts = []
    for dialect in DIALECTS:
        page.choose("dialects", dialect)
        texts.append(page.generate("generate" if not texts else "retry")[0].strip())
    assert texts == texts[:1] * len(DIALECTS) and len(texts[0]) > 20


def test_a_conversation_continues(page: Page) -> None:
    page.choose("modes", "chat")
    page.set("temperature", 0)
    page.write("Message", "What is the capital of France?")
    assert page.generate() == ["The capital of France is Paris."]
    page.write("Message", "And of Italy?")
    assert page.generate() == ["The capital of Italy is Rome."]
    assert page.texts(".role") == ["You", "Model", "You"]


def test_a_turn_can_be_edited_and_sent_again(page: Page) -> None:
    page.choose("modes", "chat")
    page.set("temperature", 0)
    page.write("Message", "What is the capital of France?")
    page.generate()
    page.write("Turn 1", "What is the capital of Italy?")
    assert page.generate() == ["The capital of Italy is Rome."]
    assert page.texts(".role") == ["You"]


def test_an_answer_is_shown_while_it_grows(endless: Page) -> None:
    start_answer(endless)
    (first,) = endless.answer_texts
    endless.until(lambda: len(endless.answer_texts[0]) > len(first) + 40)
    assert endless.running and "tokens/s" in endless.text("#speed")
    assert endless.answer_texts[0].startswith(first[:10])


def test_the_end_of_an_answer_stays_in_view_until_the_reader_scrolls_away(endless: Page) -> None:
    endless.write("Prompt", "\n" * 40 + "The capital of France is")
    start_answer(endless)
    (first,) = endless.answer_texts
    endless.until(lambda: len(endless.answer_texts[0]) > len(first) + 400)
    assert endless.running and endless.browser.execute_script(PLACE) == [True, True]
    endless.browser.execute_script("document.querySelector('.main').scrollTop = 0")
    (first,) = endless.answer_texts
    endless.until(lambda: len(endless.answer_texts[0]) > len(first) + 40)
    assert endless.running and endless.browser.execute_script(PLACE) == [False, False]
    endless.press("stop")


def test_stop_ends_the_answer_and_keeps_it(endless: Page) -> None:
    start_answer(endless)
    endless.press("stop")
    endless.until(lambda: not endless.running)
    assert len(endless.answer_texts[0]) > 20 and endless.texts(".finish span")[0] == "stopped"
    assert not endless.is_visible("#notice")


def test_keys_generate_and_stop(endless: Page) -> None:
    endless.find("textarea[aria-label=Prompt]").send_keys(Keys.CONTROL, Keys.ENTER)
    endless.until(lambda: endless.running)
    ActionChains(endless.browser).send_keys(Keys.ESCAPE).perform()
    endless.until(lambda: not endless.running)


def test_retry_sends_the_same_request_again(page: Page) -> None:
    page.set("seed", 5)
    prompt = page.value("Prompt")
    first = page.generate()
    assert page.generate("retry") == first and page.value("Prompt") == prompt


def test_undo_goes_back_step_by_step(page: Page) -> None:
    page.set("temperature", 0)
    page.write("Prompt", "Monday, Tuesday,")
    page.set("max_tokens", 3)
    (first,) = page.generate()
    page.generate()
    assert page.value("Prompt").startswith("Monday, Tuesday, Wed")
    page.press("undo")
    assert page.value("Prompt") == "Monday, Tuesday," and page.answer_texts == [first]
    page.press("undo")
    assert page.answer_texts == []
    assert not page.find("#undo").is_enabled()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_picked_answer_is_continued(page: Page, dialect: str) -> None:
    page.choose("dialects", dialect)
    page.write("Prompt", "Once upon a time")
    for name, value in {"n": 3, "seed": 2, "temperature": 1.5, "max_tokens": 12}.items():
        page.set(name, value)
    assert len(set(page.generate())) == 3
    page.all(".picker")[1].click()
    selected = page.answer_texts[1]
    page.generate()
    assert selected.strip() in page.value("Prompt")


@pytest.mark.parametrize("dialect", ["openai", "tgi", "neodim"])
def test_the_stop_string_is_shown(page: Page, dialect: str) -> None:
    page.choose("dialects", dialect)
    page.write("Prompt", "Monday, Tuesday,")
    page.set("temperature", 0)
    page.set("stop", " Friday")  # a token ends with it, as TGI requires
    page.generate()
    assert page.texts(".finish code")[0] == "·Friday"


@pytest.mark.parametrize("dialect", ["openai", "tgi", "neodim"])
def test_the_truncated_part_of_the_prompt_is_shown(page: Page, dialect: str) -> None:
    page.choose("dialects", dialect)
    page.write("Prompt", "A long time ago nobody knew this. The capital of France is")
    page.set("truncate", 5)
    page.until(lambda: page.is_visible(".truncation-note"))
    truncated = page.find(".mirror mark").get_property("textContent")
    assert "A long time ago" in truncated and "France is" not in truncated


def test_the_truncated_part_is_right_after_an_emoji(page: Page) -> None:
    """JavaScript counts an emoji as two characters, the server as one."""
    page.choose("dialects", "openai")
    page.write("Prompt", "😀" * 6 + " The capital of France is")
    page.set("truncate", 5)
    page.until(lambda: page.is_visible(".truncation-note"))
    truncated = page.find(".mirror mark").get_property("textContent")
    assert truncated.startswith("😀" * 6) and (" The capital of France is").startswith(truncated[6:])
    assert "is" not in truncated


def test_tokens_are_counted_against_the_limit(page: Page) -> None:
    """The demo model has a token for each of these words, and one for the beginning."""
    for prompt in ("one two three", "one two three four five six seven eight"):
        page.write("Prompt", prompt)
        label = f"{len(prompt.split()) + 1} of 2,048 tokens"
        page.until(lambda label=label: page.text("#meter") == label)


@pytest.mark.parametrize("dialect", ["llama_stack", "openai", "tgi"])
def test_a_token_shows_its_alternatives(page: Page, dialect: str) -> None:
    page.choose("dialects", dialect)
    page.generate()
    token = next(each for each in page.all(".token") if each.text.strip())
    ActionChains(page.browser).move_to_element(token).perform()
    rows = page.until(lambda: page.texts("#token-tooltip div"))
    assert len(rows) >= 4 and "%" in rows[0] and page.texts("#token-tooltip .sampled")


def test_a_format_constrains_the_answer(page: Page) -> None:
    page.set("response_format", "choice")
    page.set("format_spec", "Rome\nOslo")
    assert page.generate()[0] in ("Rome", "Oslo")
