"""Forced tool calls: their format, the names, and arguments that fit the tool's schema."""

import json
import re

import pytest

from inference.errors import BadRequest
from inference.events import CallDelta
from inference.structured_output import tool_constraint
from inference.text.tool_parsers.stream import ToolParser
from inference.types import Tool
from tests.structured_output.conftest import RandomWriter

WEATHER = Tool(
    "get_weather",
    "The weather somewhere",
    {
        "properties": {"city": {"$ref": "#/$defs/city"}},
        "required": ["city"],
        "$defs": {"city": {"enum": ["Paris", "Rome"]}},
    },
)
CLOCK = Tool("clock", "The time", {"type": "object", "properties": {}})


def is_call(name: str, arguments: dict[str, object]) -> bool:
    return {"get_weather": arguments in ({"city": "Paris"}, {"city": "Rome"}), "clock": arguments == {}}[name]


def test_required_yields_a_call_of_any_tool(writer: RandomWriter) -> None:
    constraint = tool_constraint([WEATHER, CLOCK], "required", special_ids={})
    calls = [json.loads(text) for text in writer.texts(constraint)]
    assert {call["name"] for call in calls} == {"get_weather", "clock"}
    assert all(call.keys() == {"name", "parameters"} for call in calls)
    assert all(is_call(call["name"], call["parameters"]) for call in calls)


def test_a_name_yields_a_call_of_that_tool(writer: RandomWriter) -> None:
    constraint = tool_constraint([WEATHER, CLOCK], "clock", special_ids={})
    assert {json.loads(text)["name"] for text in writer.texts(constraint, 10)} == {"clock"}


MARK, BETWEEN = 1, 0  # special tokens of the writer, <s> and <unk>
FORMATS: dict[str, tuple[str, dict[str, int]]] = {
    "llama": ("llama", {}),
    "hermes": ("hermes", {}),
    "hermes, with special tokens": ("hermes", {"<tool_call>": MARK, "</tool_call>": BETWEEN}),
    "mistral": ("mistral", {}),
    "mistral, with a special token": ("mistral", {"[TOOL_CALLS]": MARK}),
    "mistral, newer": ("mistral", {"[TOOL_CALLS]": MARK, "[ARGS]": BETWEEN}),
    "python": ("python", {}),
}


def read_calls(
    writer: RandomWriter, text: str, tool_format: str, special: dict[str, int]
) -> list[tuple[str, dict]]:
    """The calls in a text, parsed like an answer's: special tokens are not text."""
    tags = {writer.tokenizer.convert_ids_to_tokens(id): tag for tag, id in special.items()}
    calls = ToolParser([WEATHER, CLOCK], call_format=tool_format)
    items = []
    for segment in re.split("|".join(f"({re.escape(name)})" for name in tags) or "$^", text):
        items += calls.feed_special(tags[segment]) if segment in tags else calls.feed(segment or "")
    items += calls.flush()
    deltas = [item for item in items if isinstance(item, CallDelta)]
    assert all(item.isspace() for item in items if isinstance(item, str))
    return [(delta.name, json.loads(delta.arguments)) for delta in deltas if delta.done]


@pytest.mark.parametrize(("tool_format", "special"), FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("several", [False, True])
def test_a_call_is_written_in_the_models_own_format_and_parsed(
    writer: RandomWriter, tool_format: str, special: dict[str, int], several: bool
) -> None:
    tools = [WEATHER, CLOCK]
    constraint = tool_constraint(tools, "required", tool_format, allow_several=several, special_ids=special)
    texts = list(writer.texts(constraint))
    read = [
        read_calls(writer, text, "auto" if tool_format == "python" else tool_format, special)
        for text in texts
    ]
    assert len(texts) > 20
    assert all(is_call(*call) for calls in read for call in calls)
    assert min(map(len, read)) == 1
    assert (max(map(len, read)) > 1) == several


def test_a_named_tool_is_called_once(writer: RandomWriter) -> None:
    constraint = tool_constraint([WEATHER, CLOCK], "clock", allow_several=True, special_ids={})
    texts = list(writer.texts(constraint, 10))
    assert texts and all(read_calls(writer, text, "llama", {}) == [("clock", {})] for text in texts)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(BadRequest, match="one of the tools' names") as caught:
        tool_constraint([WEATHER], "clock", special_ids={})
    assert caught.value.field == "tool_choice"
