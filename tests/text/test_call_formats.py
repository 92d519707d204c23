"""Each format parses its own calls; a chat template shows which format a model has."""

import pytest

from inference.text.tool_parsers.formats import CALL_FORMATS, detect_format
from inference.text.tool_parsers.stream import ToolParser
from tests.text.joined_output import JSON, TOOLS, join_items, parse

FUNCTION = '<function=weather>{"city": "Paris"}</function>'
MINE = {
    "llama": [
        JSON,
        f"<|python_tag|>{JSON}",
        f"{JSON}; {JSON}",
        FUNCTION,
    ],
    "hermes": [f"<tool_call>\n{JSON}\n</tool_call>", "<function=now></function>"],
    "mistral": [f"[TOOL_CALLS] [{JSON}]", '[TOOL_CALLS]weather[ARGS]{"city": "Paris"}'],
    "python": ['[weather(city="Paris"), now()]'],
}


@pytest.mark.parametrize("tool_format", CALL_FORMATS)
def test_a_format_parses_its_own_calls_and_no_others(tool_format: str) -> None:
    assert all(parse(text, tool_format=tool_format) == parse(text) for text in MINE[tool_format])
    others = {text for other in MINE if other != tool_format for text in MINE[other]} - set(MINE[tool_format])
    others -= {FUNCTION, "<function=now></function>"}  # two formats have them
    for text in others:
        assert parse(text, tool_format=tool_format) == (text, [])


@pytest.mark.parametrize("tool_format", ["hermes", "mistral"])
def test_after_a_special_token_no_tag_is_needed(tool_format: str) -> None:
    calls = ToolParser(TOOLS, call_format=tool_format)
    text = {"hermes": f"\n{JSON}\n", "mistral": f"[{JSON}]"}[tool_format]
    items = [*calls.feed_special("<|x|>"), *calls.feed(text), *calls.feed_special("<|y|>"), *calls.flush()]
    assert [call[0] for call in join_items(items)[1]] == ["weather"]


@pytest.mark.parametrize(
    ("template", "tool_format"),
    [
        ("{{ '<tool_call>' }}", "hermes"),
        ("[TOOL_CALLS]", "mistral"),
        ("<|python_tag|> {{ tools }}", "llama"),
        ("<|python_start|>", "python"),
        ("{{ messages }}", "llama"),
    ],
)
def test_a_template_shows_its_models_format(template: str, tool_format: str) -> None:
    assert detect_format(template) == tool_format
