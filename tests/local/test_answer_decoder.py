"""How the ids of an answer become text: stop strings, special tokens, tool calls; no text is lost."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.events import CallDelta, Event, Finished, Token
from inference.local import BackendModel, LocalBackend
from inference.sampling import Sampling
from inference.text.tool_parsers.stream import ToolParser
from inference.types import GenerationRequest, Message, TemplateOptions, Tool
from settings.groups import BackendSettings
from tests.local.conftest import FakeCompiler
from tests.local.fake_engine import FakeEngine, model_metrics
from tests.text.tokenizers_of_three_kinds import KINDS, tokenizer

GREEDY = Sampling(greedy=True)
REQUEST = GenerationRequest("The", GREEDY)
WEATHER = Tool("weather", "of a city", {"type": "object", "properties": {"city": {"type": "string"}}})
CALL = '{"name": "weather", "parameters": {"city": "Paris"}}'

Say = Callable[..., list[Event]]


@pytest.fixture(params=["byte-level", "sentencepiece"])
def words(request: pytest.FixtureRequest) -> Any:
    return tokenizer(request.param)


@pytest.fixture
def say(backend: LocalBackend, engine: FakeEngine) -> Say:
    """The events of an answer with these ids."""

    def run(request: GenerationRequest, ids: list[int], **ending: Any) -> list[Event]:
        stream = backend.generate(request)
        engine.say(ids, **({"reason": "length", "request": len(engine.requests) - 1} | ending))
        return list(stream)

    return run


def ids_of(words: Any, text: str) -> list[int]:
    return words.encode(text, add_special_tokens=False)


def texts_of(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Token | Finished)]


def end_of(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


def test_an_included_stop_string_ends_the_text_and_delays_nothing(say: Say, words: Any) -> None:
    request = replace(REQUEST, stop=("fox ju",), include_stop_str_in_output=True)
    ids = ids_of(words, "The brown fox jumps over")
    events = say(request, ids[1:])
    unstopped = say(REQUEST, ids[1:])
    text = "".join(texts_of(events))
    assert text.endswith(" brown fox ju")
    assert text in "".join(texts_of(unstopped))
    assert texts_of(events)[:-2] == texts_of(unstopped)[: len(events) - 3]
    assert (end_of(events).finish_reason, end_of(events).stop, end_of(events).text) == ("stop", "fox ju", "")


def test_an_aligned_stop_string_counts_only_where_a_token_ends(say: Say, words: Any) -> None:
    ids = ids_of(words, "The brown fox jumps over")
    texts = [token for token in texts_of(say(REQUEST, ids[1:])) if token]
    longest = max(texts, key=len)
    aligned = replace(REQUEST, include_stop_str_in_output=True, stop_at_token_end=True)
    within = say(replace(aligned, stop=(longest[:-1],)), ids[1:])
    stopped = say(replace(aligned, stop=(longest,)), ids[1:])
    assert (end_of(within).finish_reason, end_of(within).stop) == ("length", None)
    assert (end_of(stopped).finish_reason, end_of(stopped).stop) == ("stop", longest)
    assert "".join(texts_of(stopped)).endswith(longest)


def test_the_end_token_takes_precedence_over_a_stop_string_of_its_name(say: Say, words: Any) -> None:
    aligned = replace(
        REQUEST, include_stop_str_in_output=True, stop_at_token_end=True, stop=(words.eos_token,)
    )
    events = say(aligned, ids_of(words, "a fox")[1:], reason="stop", end=words.eos_token_id)
    assert (end_of(events).finish_reason, end_of(events).stop) == ("stop", None)


def test_stops_of_the_plain_chat_format_are_never_included(say: Say, words: Any) -> None:
    request = replace(REQUEST, prompt=[Message("user", "Hi")], stop=("fox",), include_stop_str_in_output=True)
    events = say(request, ids_of(words, " Hello.\nUser: and"))
    assert "".join(texts_of(events)) == "Hello."


def test_the_end_tokens_text_needs_show_special_and_include_stop(say: Say, words: Any) -> None:
    for show_special, include_stop, ending in ((0, 0, ""), (0, 1, ""), (1, 0, ""), (1, 1, words.eos_token)):
        request = replace(
            REQUEST, show_special=bool(show_special), include_stop_str_in_output=bool(include_stop)
        )
        events = say(request, ids_of(words, "a fox")[1:], reason="stop", end=words.eos_token_id)
        assert "".join(texts_of(events)).endswith("fox" + ending)
        assert end_of(events).stop is None


def test_a_stop_tokens_text_is_returned_if_stops_are_included(say: Say, words: Any) -> None:
    [*first, last] = ids_of(words, "The fox")
    for include_stop in (True, False):
        request = replace(REQUEST, include_stop_str_in_output=include_stop, stop_token_ids=(last,))
        events = say(request, first[1:], reason="stop", end=last)
        assert "".join(texts_of(events)).endswith(words.decode([last]).strip()) == include_stop
        assert end_of(events).stop == last


def test_special_tokens_are_returned_by_name_where_they_are_requested(say: Say, words: Any) -> None:
    mark = words.convert_tokens_to_ids("<|eot|>")
    ids = [*ids_of(words, "a fox")[1:], mark, *ids_of(words, "x")]
    named = say(replace(REQUEST, show_special=True), ids)
    hidden = say(REQUEST, ids)
    assert "<|eot|>" in "".join(texts_of(named))
    assert "".join(texts_of(hidden)).replace(" ", "") == "".join(texts_of(named)).replace(
        "<|eot|>", ""
    ).replace(" ", "")
    [token] = [event for event in named if isinstance(event, Token) and event.is_special]
    assert (token.text, token.spelling) == ("<|eot|>", "<|eot|>")


def test_a_special_tokens_name_may_be_a_stop_string(say: Say, words: Any) -> None:
    mark = words.convert_tokens_to_ids("<|eot|>")
    request = replace(REQUEST, show_special=True, stop=("<|eot|>",), tools=(WEATHER,))
    events = say(request, [*ids_of(words, "a fox")[1:], mark, *ids_of(words, "x")])
    assert "".join(texts_of(events)).endswith("fox")
    assert end_of(events).stop == "<|eot|>"


def test_without_parallel_calls_the_first_call_ends_the_answer(
    say: Say, words: Any, engine: FakeEngine
) -> None:
    request = replace(REQUEST, tools=(WEATHER,), parallel_calls=False)
    events = say(request, ids_of(words, f"{CALL}; {CALL} and more"))
    calls = [event for event in events if isinstance(event, CallDelta)]
    assert {call.call_index for call in calls} == {0}
    assert "".join(call.arguments for call in calls) == '{"city": "Paris"}'
    assert [call.done for call in calls] == [*[False] * (len(calls) - 1), True]
    assert (end_of(events).finish_reason, end_of(events).stop) == ("stop", None)
    assert "".join(texts_of(events)).strip() == ""
    assert engine.cancelled == [0]


def test_several_calls_are_returned_if_they_are_allowed(say: Say, words: Any) -> None:
    events = say(replace(REQUEST, tools=(WEATHER,)), ids_of(words, f"{CALL}; {CALL}"))
    assert [event.call_index for event in events if isinstance(event, CallDelta) and event.done] == [0, 1]
    assert end_of(events).finish_reason == "length"


def test_a_call_that_the_limit_truncates_is_not_done(say: Say, words: Any) -> None:
    events = say(replace(REQUEST, tools=(WEATHER,)), ids_of(words, CALL)[:-6])
    calls = [event for event in events if isinstance(event, CallDelta)]
    assert calls and not any(call.done for call in calls)
    assert '{"city": "Paris"}'.startswith("".join(call.arguments for call in calls))


def test_a_continued_message_keeps_the_space_before_its_continuation(say: Say, words: Any) -> None:
    messages = [Message("user", "Hi"), Message("assistant", "The")]
    events = say(
        replace(REQUEST, prompt=messages, template=TemplateOptions(continue_final_message=True)),
        ids_of(words, "a fox")[1:],
    )
    assert "".join(texts_of(events)) == " fox"


def test_bad_words_are_banned_as_token_sequences(
    backend: LocalBackend, engine: FakeEngine, words: Any
) -> None:
    backend.generate(replace(REQUEST, sampling=Sampling(bad_words_ids=((7, 8),)), bad_words=("fox",)))
    banned = engine.requests[0].sampling.bad_words_ids
    assert banned[0] == (7, 8)
    assert tuple(ids_of(words, "fox")) in banned[1:]


@pytest.mark.parametrize("kind", KINDS)
@given(
    ids=st.lists(st.integers(0, 299), max_size=40),
    text=st.sampled_from(["", CALL, f"so <tool_call>{CALL}</tool_call> x", "a <|eot|> fox", "The fox"]),
    stop=st.lists(st.sampled_from(["fox", " the", "e", "\ufffd", "Par", "<|eot|>", "ab"]), max_size=2),
    keep=st.booleans(),
    show_special=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_streamed_text_equals_the_whole_text_up_to_its_stop(
    kind: str, ids: list[int], text: str, stop: list[str], keep: bool, show_special: bool
) -> None:
    words = tokenizer(kind)
    ids = [*ids_of(words, text), *ids]
    request = replace(REQUEST, prompt=[words.eos_token_id], show_special=show_special)
    full_text = "".join(texts_of(generate_events(kind, request, ids)))
    events = generate_events(kind, replace(request, stop=tuple(stop), include_stop_str_in_output=keep), ids)
    expected, hit = up_to(full_text, stop, keep)
    assert "".join(texts_of(events)) == expected
    assert (end_of(events).stop or "") == hit
    assert end_of(events).num_tokens == sum(isinstance(event, Token) for event in events)


@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
@given(
    before=st.sampled_from(["", "so ", "<tool_call>", " ", "a <"]),
    after=st.sampled_from(["", "</tool_call>", "; ", "}", " x"]),
    call=st.sampled_from([CALL, f"{CALL};{CALL}", f"[{CALL}, {CALL}]", CALL[:-9], "[weather(city='x')]"]),
)
@settings(max_examples=60, deadline=None)
def test_streamed_calls_equal_those_of_the_whole_text(kind: str, before: str, call: str, after: str) -> None:
    words = tokenizer(kind)
    ids = ids_of(words, before + call + after)
    request = replace(REQUEST, prompt=[words.eos_token_id])
    full_text = "".join(texts_of(generate_events(kind, request, ids)))
    events = generate_events(kind, replace(request, tools=(WEATHER,)), ids)
    reader = ToolParser([WEATHER])
    read = [*reader.feed(full_text), *reader.flush()]
    assert calls_of(events) == calls_of(read)
    assert "".join(texts_of(events)) == "".join(item for item in read if isinstance(item, str))


def up_to(text: str, stops: list[str], keep: bool) -> tuple[str, str]:
    """The text up to the stop string that is completed first, and that string."""
    for end in range(1, len(text) + 1):
        if completed := [stop for stop in stops if text[:end].endswith(stop)]:
            hit = max(completed, key=len)
            return text[: end if keep else end - len(hit)], hit
    return text, ""


def calls_of(items: Iterable[object]) -> dict[int, tuple[str, bool]]:
    calls: dict[int, tuple[str, bool]] = {}
    for item in items:
        if isinstance(item, CallDelta):
            calls[item.call_index] = (calls.get(item.call_index, ("",))[0] + item.arguments, item.done)
    return calls


def generate_events(kind: str, request: GenerationRequest, ids: list[int]) -> list[Event]:
    backend, engine = backend_of(kind)
    stream = backend.generate(request)
    engine.say(ids, reason="length", request=len(engine.requests) - 1)
    return list(stream)


@cache
def backend_of(kind: str) -> tuple[LocalBackend, FakeEngine]:
    engine, words = FakeEngine(), tokenizer(kind)
    ends = frozenset([words.eos_token_id])
    backend = LocalBackend(
        engine,  # type: ignore[arg-type]
        BackendModel(id="tiny", tokenizer=words, context=999, vocab=421, eos_token_ids=ends),
        BackendSettings(),
        metrics=model_metrics(),
        compiler=FakeCompiler(),  # type: ignore[arg-type]
    )
    return backend, engine
