"""Reasoning is separated from an full_text's text, as the chat template and the end of the prompt show it."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tokenizers import AddedToken

from inference.engine.sequence import Matcher
from inference.events import CallDelta, Event, Finished, Token
from inference.local import LocalBackend
from inference.sampling import Sampling
from inference.structured_output import MatcherAfterReasoning
from inference.types import Constraint, GenerationRequest, Message, TemplateOptions, Tool
from tests.local.conftest import FakeMatcher
from tests.local.fake_engine import FakeEngine
from tests.text.tokenizers_of_three_kinds import tokenizer

TEMPLATE = (
    "{% if tools %}{{ tools[0].function.name }}{{ tools[0].function.description }}{% endif %}"
    "{% for m in messages %}<{{ m.role }}>{{ m.content.split('</think>')[-1] }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>"
    "{% if thinking is defined %}{{ '<think>\n' if thinking else '<think>\n\n</think>\n\n' }}{% endif %}"
    "{% endif %}"
)
CHAT = GenerationRequest(
    [Message("user", "Is <think> a tag?")], Sampling(greedy=True), separate_reasoning=True
)
WEATHER = Tool("weather", "of a city", {"type": "object", "properties": {"city": {"type": "string"}}})
CALL = '{"name": "weather", "parameters": {"city": "Paris"}}'

Say = Callable[..., list[Event]]


@pytest.fixture
def marker_names(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """request.param: the markers that are tokens"""
    return getattr(request, "param", ())


@pytest.fixture
def words(marker_names: tuple[str, ...]) -> Any:
    words = copy.deepcopy(tokenizer("byte-level"))
    words.add_tokens([AddedToken(name, special=False) for name in marker_names])
    words.chat_template = TEMPLATE
    return words


@pytest.fixture
def say(backend: LocalBackend, engine: FakeEngine, words: Any) -> Say:
    """The events of an full_text with this text."""

    def run(request: GenerationRequest, text: str) -> list[Event]:
        stream = backend.generate(request)
        engine.say(words.encode(text, add_special_tokens=False), "length", request=len(engine.requests) - 1)
        return list(stream)

    return run


def thinking(request: GenerationRequest, value: bool) -> GenerationRequest:
    return replace(request, template=TemplateOptions(arguments={"thinking": value}))


def allows(matcher: Matcher | None, token_id: int) -> bool:
    assert isinstance(matcher, MatcherAfterReasoning)
    mask = matcher.token_bitmask()
    assert mask is not None
    return bool(int(mask[token_id // 32]) >> token_id % 32 & 1)


def texts_of(events: list[Event]) -> tuple[str, str]:
    """(reasoning, text)"""
    texts = [event for event in events if isinstance(event, Token | Finished)]
    return "".join(event.reasoning for event in texts), "".join(event.text for event in texts)


def test_reasoning_that_the_model_opens_is_separated(say: Say) -> None:
    assert texts_of(say(CHAT, "<think>\nhm\n</think>\n\n4")) == ("hm", "4")


def test_reasoning_that_the_prompt_opens_is_separated(say: Say) -> None:
    assert texts_of(say(thinking(CHAT, True), "hm\n</think>\n\n4")) == ("hm", "4")
    assert texts_of(say(thinking(CHAT, False), "4 </think>")) == ("", "4 </think>")


def test_a_request_may_have_the_reasoning_in_the_text(say: Say) -> None:
    full_text = "<think>\nhm\n</think>\n\n4"
    assert texts_of(say(replace(CHAT, separate_reasoning=False), full_text)) == ("", full_text)


@pytest.mark.parametrize("backend", [{"reasoning_format": "none"}], indirect=True)
def test_the_server_may_have_the_reasoning_in_the_text(say: Say) -> None:
    full_text = "<think>\nhm\n</think>\n\n4"
    assert texts_of(say(CHAT, full_text)) == ("", full_text)


def test_a_completion_is_all_text(say: Say) -> None:
    full_text = "<think>hm</think>4"
    assert texts_of(say(replace(CHAT, prompt="<assistant><think>\n"), full_text)) == ("", full_text)


def test_the_tokens_between_the_markers_are_counted(say: Say, words: Any) -> None:
    def num_reasoning_tokens(request: GenerationRequest, text: str) -> int:
        [*_, end] = say(request, text)
        assert isinstance(end, Finished)
        return end.num_reasoning_tokens

    thought = "The quick brown fox"
    num_tokens = len(words.encode(thought, add_special_tokens=False))
    num_marker_tokens = len(words.encode("</think>", add_special_tokens=False))
    unclosed = num_reasoning_tokens(thinking(CHAT, True), thought)
    closed = num_reasoning_tokens(thinking(CHAT, True), f"{thought}</think> jumps")
    assert unclosed == num_tokens
    assert num_tokens <= closed < num_tokens + num_marker_tokens
    assert num_reasoning_tokens(thinking(CHAT, False), thought) == 0


def test_calls_are_found_behind_the_reasoning_and_not_in_it(say: Say) -> None:
    events = say(replace(CHAT, tools=(WEATHER,)), f"<think>{CALL}</think>\n\n{CALL}")
    assert texts_of(events) == (CALL, "")
    calls = [event for event in events if isinstance(event, CallDelta)]
    assert {call.call_index for call in calls} == {0}
    assert "".join(call.arguments for call in calls) == '{"city": "Paris"}'


def test_a_call_ends_reasoning_that_is_not_closed_if_there_are_tools(say: Say) -> None:
    call = "<tool_call>\n<function=weather>\n<parameter=city>Paris</parameter>\n</function>\n</tool_call>"
    with_tools = say(thinking(replace(CHAT, tools=(WEATHER,)), True), f"hm\n{call}")
    assert texts_of(with_tools) == ("hm", "")
    assert [event.done for event in with_tools if isinstance(event, CallDelta)] == [True]
    assert texts_of(say(thinking(CHAT, True), f"hm\n{call}")) == (f"hm\n{call}", "")


def test_stop_strings_count_in_the_reasoning_too(say: Say) -> None:
    events = say(replace(CHAT, stop=("fox",)), "<think>a fox</think>4")
    assert texts_of(events) == ("a", "")
    assert events[-1].stop == "fox"  # type: ignore[union-attr]
    assert texts_of(say(replace(CHAT, stop=("</",)), "<think>a</think>4")) == ("a", "")


def test_without_a_token_that_ends_reasoning_a_constrained_answer_is_all_text(
    say: Say, engine: FakeEngine
) -> None:
    constrained = replace(CHAT, constraint=Constraint("json"))
    assert texts_of(say(thinking(constrained, True), '{"a": 1}')) == ("", '{"a": 1}')
    assert isinstance(engine.matchers[-1], FakeMatcher)


@pytest.mark.parametrize("marker_names", [("<think>", "</think>")], indirect=True)
def test_with_a_token_that_ends_reasoning_the_grammar_begins_behind_it(
    say: Say, engine: FakeEngine, words: Any
) -> None:
    constrained = replace(CHAT, constraint=Constraint("json"))
    assert texts_of(say(thinking(constrained, True), 'hm</think>{"a": 1}')) == ("hm", '{"a": 1}')
    opened, opening, closing = engine.matchers[-1], *words.convert_tokens_to_ids(["<think>", "</think>"])
    assert allows(opened, closing) and not allows(opened, words.eos_token_id)

    say(constrained, "<think>")
    assert allows(engine.matchers[-1], opening) and not allows(engine.matchers[-1], closing)

    say(thinking(constrained, False), "{}")
    assert not allows(engine.matchers[-1], opening)

    say(replace(constrained, separate_reasoning=False), "{}")
    assert isinstance(engine.matchers[-1], FakeMatcher)


def test_a_continued_message_goes_on_where_it_was(say: Say) -> None:
    def continued(content: str, text: str) -> tuple[str, str]:
        messages = [*CHAT.prompt, Message("assistant", content)]
        template = TemplateOptions(continue_final_message=True)
        return texts_of(say(replace(CHAT, prompt=messages, template=template), text))

    assert continued("<think>\nlet me", " see</think>4") == (" see", "4")
    assert continued("It", " is <think>") == ("", " is <think>")


def test_tokens_without_text_add_no_reasoning(say: Say) -> None:
    events = say(CHAT, "<think>hm</think>4")
    texts = [event for event in events if isinstance(event, Token) and not event.is_silent]
    assert all(bool(event.reasoning) != bool(event.text) for event in texts)
