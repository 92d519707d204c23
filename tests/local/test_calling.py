"""Which format calls are demanded and read in."""

import copy
from dataclasses import replace
from typing import Any

import pytest

from inference.local import LocalBackend
from inference.local.calling import Calling
from inference.metrics import Metrics
from inference.text.chat import Chat
from inference.text.vocabulary import Vocabulary
from inference.types import CallDelta, GenerationRequest, Tool
from tests.local.conftest import FakeCompiler
from tests.local.fake_engine import FakeEngine
from tests.text.tokenizers_of_three_kinds import tokenizer

TELLS = "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}"
HERMES = TELLS + "{# <tool_call> #}"
WEATHER = Tool("weather", "", {"type": "object", "properties": {}})
ASKED = GenerationRequest("Rain?", tools=(WEATHER,))
JSON = '{"name": "weather", "arguments": {}}'
HERMES_CALL = f"<tool_call>{JSON}</tool_call>"


def words(template: str | None) -> Any:
    made = copy.copy(tokenizer("byte-level"))
    made.chat_template = template
    return made


def calling(template: str | None, setting: str = "auto") -> Calling:
    return Calling(setting, Chat(words(template)), Vocabulary(words(template)))


def reads(found: Calling, answer: str, **asked: Any) -> bool:
    reader = found.reader(replace(ASKED, **asked), 0)
    return reader is not None and any(isinstance(piece, CallDelta) for piece in reader.feed(answer))


@pytest.mark.parametrize(
    ("template", "setting", "form"),
    [
        (HERMES, "auto", "hermes"),
        (HERMES, "mistral", "mistral"),
        (TELLS, "auto", "llama"),
        (None, "auto", "llama"),
    ],
)
def test_the_format_is_the_templates_unless_it_is_set(template: str | None, setting: str, form: str) -> None:
    backend = LocalBackend(
        FakeEngine(),  # type: ignore[arg-type]
        words(template),
        model_id="tiny",
        context=64,
        vocab=400,
        ends=frozenset([2]),
        metrics=Metrics(),
        compiler=FakeCompiler(),  # type: ignore[arg-type]
        tool_format=setting,
        details={"dtype": "float32", "device": "cpu"},
    )
    assert backend.info().details == {"dtype": "float32", "device": "cpu", "tool_format": form}


def test_unless_it_is_set_any_format_is_read() -> None:
    assert all(reads(calling(HERMES), answer) for answer in (JSON, HERMES_CALL, "[weather()]"))


def test_only_the_format_that_is_set_is_read() -> None:
    assert [reads(calling(HERMES, "hermes"), answer) for answer in (JSON, HERMES_CALL)] == [False, True]
    assert [reads(calling(HERMES, "llama"), answer) for answer in (JSON, HERMES_CALL)] == [True, False]


@pytest.mark.parametrize("asked", [{"tool_format": "python_list"}, {"tool_choice": "required"}])
def test_what_is_asked_in_words_of_ours_is_read_whatever_is_set(asked: dict[str, Any]) -> None:
    assert reads(calling(HERMES, "hermes"), JSON, **asked)
    assert reads(calling(None, "hermes"), JSON)


def test_no_call_is_looked_for_where_none_is_wanted() -> None:
    assert calling(HERMES).reader(replace(ASKED, tool_choice="none"), 0) is None
    assert calling(HERMES).reader(replace(ASKED, tools=()), 0) is None


@pytest.mark.parametrize(
    ("template", "mark"), [(HERMES, "<tool_call>"), (TELLS, '"parameters"'), (None, '"parameters"')]
)
def test_a_call_is_demanded_in_the_models_own_format(template: str | None, mark: str) -> None:
    demanded = calling(template).demanded(replace(ASKED, tool_choice="required"))
    assert demanded is not None
    assert mark in str(demanded.spec).replace("'", '"')
    assert calling(template).demanded(ASKED) is None


def test_several_calls_are_demanded_only_where_there_may_be_several() -> None:
    demanded = [
        calling(TELLS).demanded(replace(ASKED, tool_choice=choice, parallel_calls=parallel))
        for choice, parallel in (("required", True), ("required", False), ("weather", True))
    ]
    assert ["minItems" in str(each) for each in demanded] == [True, False, False]
