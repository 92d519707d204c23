"""The format in which tool calls are demanded and parsed."""

import copy
from dataclasses import replace
from typing import Any

import pytest

from inference.events import CallDelta
from inference.local import BackendModel, LocalBackend
from inference.local.tool_calling import ToolCalling
from inference.text.chat_template import ChatTemplate
from inference.text.vocabulary import Vocabulary
from inference.types import GenerationRequest, Tool
from settings.groups import BackendSettings
from tests.local.conftest import FakeCompiler
from tests.local.fake_engine import FakeEngine, model_metrics
from tests.text.tokenizers_of_three_kinds import tokenizer

TOOL_TEMPLATE = (
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}"
)
HERMES = TOOL_TEMPLATE + "{# <tool_call> #}"
WEATHER = Tool("weather", "", {"type": "object", "properties": {}})
REQUEST = GenerationRequest("Rain?", tools=(WEATHER,))
JSON = '{"name": "weather", "arguments": {}}'
HERMES_CALL = f"<tool_call>{JSON}</tool_call>"


def words(template: str | None) -> Any:
    byte_tokenizer = copy.copy(tokenizer("byte-level"))
    byte_tokenizer.chat_template = template
    return byte_tokenizer


def calling(template: str | None, setting: str = "auto") -> ToolCalling:
    return ToolCalling(setting, ChatTemplate(words(template)), Vocabulary(words(template)))


def reads_call(tool_calling: ToolCalling, text: str, **options: Any) -> bool:
    reader = tool_calling.parser_for(replace(REQUEST, **options), 0)
    return reader is not None and any(isinstance(item, CallDelta) for item in reader.feed(text))


@pytest.mark.parametrize(
    ("template", "setting", "tool_format"),
    [
        (HERMES, "auto", "hermes"),
        (HERMES, "mistral", "mistral"),
        (TOOL_TEMPLATE, "auto", "llama"),
        (None, "auto", "llama"),
    ],
)
def test_the_format_comes_from_the_template_unless_it_is_set(
    template: str | None, setting: str, tool_format: str
) -> None:
    backend = LocalBackend(
        FakeEngine(),  # type: ignore[arg-type]
        BackendModel(
            id="tiny",
            tokenizer=words(template),
            context=64,
            vocab=400,
            eos_token_ids=frozenset([2]),
            details={"dtype": "float32", "device": "cpu"},
        ),
        BackendSettings(tool_format=setting),
        metrics=model_metrics(),
        compiler=FakeCompiler(),  # type: ignore[arg-type]
    )
    assert backend.info().details == {"dtype": "float32", "device": "cpu", "tool_format": tool_format}


def test_any_format_is_parsed_unless_one_is_set() -> None:
    assert all(reads_call(calling(HERMES), text) for text in (JSON, HERMES_CALL, "[weather()]"))


def test_only_the_set_format_is_parsed() -> None:
    assert [reads_call(calling(HERMES, "hermes"), text) for text in (JSON, HERMES_CALL)] == [False, True]
    assert [reads_call(calling(HERMES, "llama"), text) for text in (JSON, HERMES_CALL)] == [True, False]


@pytest.mark.parametrize("options", [{"tool_format": "python_list"}, {"tool_choice": "required"}])
def test_a_requested_format_is_parsed_whichever_format_is_set(options: dict[str, Any]) -> None:
    assert reads_call(calling(HERMES, "hermes"), JSON, **options)
    assert reads_call(calling(None, "hermes"), JSON)


@pytest.mark.parametrize("start", ['{"', '{"name": "wea', "<tool_call>"])
def test_a_forced_call_that_is_cut_before_its_name_is_known_is_no_text(start: str) -> None:
    texts = {}
    for choice in ("auto", "required", "weather"):
        parser = calling(TOOL_TEMPLATE).parser_for(replace(REQUEST, tool_choice=choice), 0)
        assert parser is not None
        texts[choice] = [*parser.feed(start), *parser.flush()]
    assert texts == {"auto": [start], "required": [], "weather": []}


def test_no_call_is_parsed_where_none_is_allowed() -> None:
    assert calling(HERMES).parser_for(replace(REQUEST, tool_choice="none"), 0) is None


@pytest.mark.parametrize(
    ("template", "mark"), [(HERMES, "<tool_call>"), (TOOL_TEMPLATE, '"parameters"'), (None, '"parameters"')]
)
def test_a_call_is_demanded_in_the_models_format(template: str | None, mark: str) -> None:
    constraint = calling(template).forced_constraint(replace(REQUEST, tool_choice="required"))
    assert mark in str(constraint.spec).replace("'", '"')


def test_several_calls_are_demanded_only_where_several_are_allowed() -> None:
    constraint = [
        calling(TOOL_TEMPLATE).forced_constraint(
            replace(REQUEST, tool_choice=choice, parallel_calls=parallel)
        )
        for choice, parallel in (("required", True), ("required", False), ("weather", True))
    ]
    assert ["minItems" in str(each) for each in constraint] == [True, False, False]


def test_only_the_allowed_tools_are_demanded_and_parsed() -> None:
    tools = (WEATHER, replace(WEATHER, name="news"))
    request = replace(REQUEST, tools=tools, tool_choice="required", allowed_tools=frozenset(["news"]))
    constraint = calling(TOOL_TEMPLATE).forced_constraint(request)
    assert "news" in str(constraint.spec) and "weather" not in str(constraint.spec)
    for allowed, calls in ((["weather"], True), (["news"], False), ([], False)):
        assert (
            reads_call(calling(HERMES), HERMES_CALL, tools=tools, allowed_tools=frozenset(allowed)) == calls
        )
