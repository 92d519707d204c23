"""Forced tool calls: the form, the names, and arguments that fit the tool's schema."""

import json
import re

import pytest

from inference.constrain import tool_constraint
from inference.errors import BadRequest, NotImplementedHere
from inference.types import Tool
from tests.constrain.conftest import Writer

WEATHER = Tool(
    "get_weather",
    "The weather somewhere",
    {
        "properties": {"city": {"$ref": "#/$defs/city"}},
        "required": ["city"],
        "additionalProperties": False,
        "$defs": {"city": {"enum": ["Paris", "Rome"]}},
    },
)
CLOCK = Tool("clock", "The time", {"type": "object", "properties": {}, "additionalProperties": False})


def is_call(name: str, arguments: dict[str, object]) -> bool:
    return {"get_weather": arguments in ({"city": "Paris"}, {"city": "Rome"}), "clock": arguments == {}}[name]


def test_required_yields_a_call_of_any_tool(writer: Writer) -> None:
    constraint = tool_constraint([WEATHER, CLOCK], "required")
    assert constraint is not None
    calls = [json.loads(text) for text in writer.texts(constraint)]
    assert {call["name"] for call in calls} == {"get_weather", "clock"}
    assert all(call.keys() == {"name", "parameters"} for call in calls)
    assert all(is_call(call["name"], call["parameters"]) for call in calls)


def test_a_name_yields_a_call_of_that_tool(writer: Writer) -> None:
    constraint = tool_constraint([WEATHER, CLOCK], "clock")
    assert constraint is not None
    assert {json.loads(text)["name"] for text in writer.texts(constraint, 10)} == {"clock"}


def test_function_tags_hold_their_arguments(writer: Writer) -> None:
    constraint = tool_constraint([WEATHER, CLOCK], "required", "function_tag")
    assert constraint is not None
    texts = list(writer.texts(constraint))
    matches = [re.fullmatch(r"<function=(\w+)>(\{.*\})</function>", text, re.DOTALL) for text in texts]
    assert texts and all(match and is_call(match[1], json.loads(match[2])) for match in matches)


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_nothing_is_forced_where_the_model_may_choose(choice: str) -> None:
    assert tool_constraint([WEATHER], choice) is None


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(BadRequest, match="one of the tools' names") as caught:
        tool_constraint([WEATHER], "clock")
    assert caught.value.field == "tool_choice"


def test_a_form_that_is_not_json_is_refused() -> None:
    with pytest.raises(NotImplementedHere, match="function_tag"):
        tool_constraint([WEATHER], "required", "python_list")
