"""Forced tool calls: the form, the names, and arguments that fit the tool's schema."""

import json
import re

import pytest

from inference.constrain import tool_constraint
from inference.errors import BadRequest
from inference.text.toolcalls import ToolCalls
from inference.types import CallDelta, Tool
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
    constraint = tool_constraint([WEATHER, CLOCK], "required", special={})
    assert constraint is not None
    calls = [json.loads(text) for text in writer.texts(constraint)]
    assert {call["name"] for call in calls} == {"get_weather", "clock"}
    assert all(call.keys() == {"name", "parameters"} for call in calls)
    assert all(is_call(call["name"], call["parameters"]) for call in calls)


def test_a_name_yields_a_call_of_that_tool(writer: Writer) -> None:
    constraint = tool_constraint([WEATHER, CLOCK], "clock", special={})
    assert constraint is not None
    assert {json.loads(text)["name"] for text in writer.texts(constraint, 10)} == {"clock"}


MARK, BETWEEN = 1, 0  # special tokens of the writer's, <s> and <unk>
FORMS: dict[str, tuple[str, dict[str, int]]] = {
    "llama": ("llama", {}),
    "hermes": ("hermes", {}),
    "hermes, with special tokens": ("hermes", {"<tool_call>": MARK, "</tool_call>": BETWEEN}),
    "mistral": ("mistral", {}),
    "mistral, with a special token": ("mistral", {"[TOOL_CALLS]": MARK}),
    "mistral, newer": ("mistral", {"[TOOL_CALLS]": MARK, "[ARGS]": BETWEEN}),
    "python": ("python", {}),
}


def heard(writer: Writer, text: str, form: str, special: dict[str, int]) -> list[tuple[str, dict]]:
    """The calls in a text, read as in an answer: special tokens are no text."""
    names = [writer.tokenizer.convert_ids_to_tokens(id) for id in special.values()]
    calls = ToolCalls([WEATHER, CLOCK], form=form)
    told = []
    for part in re.split("|".join(f"({re.escape(name)})" for name in names) or "$^", text):
        told += calls.mark() if part in names else calls.feed(part or "")
    told += calls.flush()
    deltas = [piece for piece in told if isinstance(piece, CallDelta)]
    assert all(piece.isspace() for piece in told if isinstance(piece, str))
    return [(delta.name, json.loads(delta.arguments)) for delta in deltas if delta.done]


@pytest.mark.parametrize(("form", "special"), FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("several", [False, True])
def test_a_call_comes_in_the_models_own_form_and_is_read(
    writer: Writer, form: str, special: dict[str, int], several: bool
) -> None:
    tools = [WEATHER, CLOCK]
    constraint = tool_constraint(tools, "required", form, several=several, special=special)
    assert constraint is not None
    texts = list(writer.texts(constraint))
    read = [heard(writer, text, "auto" if form == "python" else form, special) for text in texts]
    assert len(texts) > 20
    assert all(is_call(*call) for calls in read for call in calls)
    assert min(map(len, read)) == 1
    assert (max(map(len, read)) > 1) == several


def test_a_named_tool_is_called_once(writer: Writer) -> None:
    constraint = tool_constraint([WEATHER, CLOCK], "clock", several=True, special={})
    assert constraint is not None
    texts = list(writer.texts(constraint, 10))
    assert texts and all(heard(writer, text, "llama", {}) == [("clock", {})] for text in texts)


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_nothing_is_forced_where_the_model_may_choose(choice: str) -> None:
    assert tool_constraint([WEATHER], choice, special={}) is None


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(BadRequest, match="one of the tools' names") as caught:
        tool_constraint([WEATHER], "clock", special={})
    assert caught.value.field == "tool_choice"
