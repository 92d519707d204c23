"""How the ids of an answer are told: stop strings kept, special tokens, the only call; nothing is lost."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.local import LocalBackend
from inference.metrics import Metrics
from inference.sampling import Sampling
from inference.text.toolcalls import ToolCalls
from inference.types import (
    CallDelta,
    Event,
    Finished,
    GenerationRequest,
    Message,
    Template,
    Token,
    Tool,
)
from tests.local.conftest import FakeCompiler
from tests.local.fake_engine import FakeEngine
from tests.text.tokenizers_of_three_kinds import KINDS, tokenizer

GREEDY = Sampling(greedy=True)
ASKED = GenerationRequest("The", GREEDY)
WEATHER = Tool("weather", "of a city", {"type": "object", "properties": {"city": {"type": "string"}}})
CALL = '{"name": "weather", "parameters": {"city": "Paris"}}'

Say = Callable[..., list[Event]]


@pytest.fixture(params=["byte-level", "sentencepiece"])
def words(request: pytest.FixtureRequest) -> Any:
    return tokenizer(request.param)


@pytest.fixture
def say(backend: LocalBackend, engine: FakeEngine) -> Say:
    """The events of an answer of these ids."""

    def said(request: GenerationRequest, ids: list[int], **ending: Any) -> list[Event]:
        stream = backend.generate(request)
        engine.say(ids, **({"reason": "length", "task": len(engine.tasks) - 1} | ending))
        return list(stream)

    return said


def ids_of(words: Any, text: str) -> list[int]:
    return words.encode(text, add_special_tokens=False)


def texts_of(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Token | Finished)]


def end_of(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


def test_a_kept_stop_string_ends_the_text_and_nothing_waits_for_it(say: Say, words: Any) -> None:
    request = replace(ASKED, stop=("fox ju",), keep_stop=True)
    ids = ids_of(words, "The brown fox jumps over")
    events = say(request, ids[1:])
    told = say(ASKED, ids[1:])
    text = "".join(texts_of(events))
    assert text.endswith(" brown fox ju")
    assert text in "".join(texts_of(told))
    assert texts_of(events)[:-2] == texts_of(told)[: len(events) - 3]
    assert (end_of(events).reason, end_of(events).stop, end_of(events).text) == ("stop", "fox ju", "")


def test_an_aligned_stop_string_counts_only_where_a_token_ends(say: Say, words: Any) -> None:
    ids = ids_of(words, "The brown fox jumps over")
    whole = [token for token in texts_of(say(ASKED, ids[1:])) if token]
    longest = max(whole, key=len)
    aligned = replace(ASKED, keep_stop=True, stop_aligned=True)
    within = say(replace(aligned, stop=(longest[:-1],)), ids[1:])
    ended = say(replace(aligned, stop=(longest,)), ids[1:])
    assert (end_of(within).reason, end_of(within).stop) == ("length", None)
    assert (end_of(ended).reason, end_of(ended).stop) == ("stop", longest)
    assert "".join(texts_of(ended)).endswith(longest)


def test_the_models_own_end_goes_before_a_stop_string_of_its_name(say: Say, words: Any) -> None:
    aligned = replace(ASKED, keep_stop=True, stop_aligned=True, stop=(words.eos_token,))
    events = say(aligned, ids_of(words, "a fox")[1:], reason="stop", end=words.eos_token_id)
    assert (end_of(events).reason, end_of(events).stop) == ("stop", None)


def test_the_plain_formats_own_stops_are_never_kept(say: Say, words: Any) -> None:
    request = replace(ASKED, prompt=[Message("user", "Hi")], stop=("fox",), keep_stop=True)
    events = say(request, ids_of(words, " Hello.\nUser: and"))
    assert "".join(texts_of(events)) == "Hello."


def test_the_models_end_is_told_only_where_both_are_asked(say: Say, words: Any) -> None:
    for shown, kept, told in ((0, 0, ""), (0, 1, ""), (1, 0, ""), (1, 1, words.eos_token)):
        request = replace(ASKED, show_special=bool(shown), keep_stop=bool(kept))
        events = say(request, ids_of(words, "a fox")[1:], reason="stop", end=words.eos_token_id)
        assert "".join(texts_of(events)).endswith("fox" + told)
        assert end_of(events).stop is None


def test_a_stop_token_is_told_where_stops_are_kept(say: Say, words: Any) -> None:
    [*first, last] = ids_of(words, "The fox")
    for kept in (True, False):
        request = replace(ASKED, keep_stop=kept, stop_tokens=(last,))
        events = say(request, first[1:], reason="stop", end=last)
        assert "".join(texts_of(events)).endswith(words.decode([last]).strip()) == kept
        assert end_of(events).stop == last


def test_special_tokens_are_told_by_name_where_they_are_asked(say: Say, words: Any) -> None:
    mark = words.convert_tokens_to_ids("<|eot|>")
    ids = [*ids_of(words, "a fox")[1:], mark, *ids_of(words, "x")]
    shown = say(replace(ASKED, show_special=True), ids)
    hidden = say(ASKED, ids)
    assert "<|eot|>" in "".join(texts_of(shown))
    assert "".join(texts_of(hidden)).replace(" ", "") == "".join(texts_of(shown)).replace(
        "<|eot|>", ""
    ).replace(" ", "")
    [token] = [event for event in shown if isinstance(event, Token) and event.special]
    assert (token.text, token.spelling) == ("<|eot|>", "<|eot|>")


def test_a_special_tokens_name_may_be_a_stop_string(say: Say, words: Any) -> None:
    mark = words.convert_tokens_to_ids("<|eot|>")
    request = replace(ASKED, show_special=True, stop=("<|eot|>",), tools=(WEATHER,))
    events = say(request, [*ids_of(words, "a fox")[1:], mark, *ids_of(words, "x")])
    assert "".join(texts_of(events)).endswith("fox")
    assert end_of(events).stop == "<|eot|>"


def test_the_only_call_ends_the_answer(say: Say, words: Any, engine: FakeEngine) -> None:
    request = replace(ASKED, tools=(WEATHER,), parallel_calls=False)
    events = say(request, ids_of(words, f"{CALL}; {CALL} and more"))
    calls = [event for event in events if isinstance(event, CallDelta)]
    assert {call.number for call in calls} == {0}
    assert "".join(call.arguments for call in calls) == '{"city": "Paris"}'
    assert [call.done for call in calls] == [*[False] * (len(calls) - 1), True]
    assert (end_of(events).reason, end_of(events).stop) == ("stop", None)
    assert "".join(texts_of(events)).strip() == ""
    assert engine.cancelled == [0]


def test_several_calls_are_told_where_they_may_be(say: Say, words: Any) -> None:
    events = say(replace(ASKED, tools=(WEATHER,)), ids_of(words, f"{CALL}; {CALL}"))
    assert [event.number for event in events if isinstance(event, CallDelta) and event.done] == [0, 1]
    assert end_of(events).reason == "length"


def test_a_call_that_the_limit_cuts_is_not_done(say: Say, words: Any) -> None:
    events = say(replace(ASKED, tools=(WEATHER,)), ids_of(words, CALL)[:-6])
    calls = [event for event in events if isinstance(event, CallDelta)]
    assert calls and not any(call.done for call in calls)
    assert '{"city": "Paris"}'.startswith("".join(call.arguments for call in calls))


def test_a_message_that_is_continued_goes_on_with_its_space(say: Say, words: Any) -> None:
    messages = [Message("user", "Hi"), Message("assistant", "The")]
    events = say(
        replace(ASKED, prompt=messages, template=Template(continues=True)), ids_of(words, "a fox")[1:]
    )
    assert "".join(texts_of(events)) == " fox"


def test_bad_words_are_banned_as_runs_of_tokens(
    backend: LocalBackend, engine: FakeEngine, words: Any
) -> None:
    backend.generate(replace(ASKED, sampling=Sampling(banned=((7, 8),)), bad_words=("fox",)))
    banned = engine.tasks[0].sampling.banned
    assert banned[0] == (7, 8)
    assert tuple(ids_of(words, "fox")) in banned[1:]


@pytest.mark.parametrize("kind", KINDS)
@given(
    ids=st.lists(st.integers(0, 299), max_size=40),
    text=st.sampled_from(["", CALL, f"so <tool_call>{CALL}</tool_call> x", "a <|eot|> fox", "The fox"]),
    stop=st.lists(st.sampled_from(["fox", " the", "e", "\ufffd", "Par", "<|eot|>", "ab"]), max_size=2),
    keep=st.booleans(),
    shown=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_a_streams_pieces_joined_are_the_text_up_to_its_stop(
    kind: str, ids: list[int], text: str, stop: list[str], keep: bool, shown: bool
) -> None:
    words = tokenizer(kind)
    ids = [*ids_of(words, text), *ids]
    request = replace(ASKED, prompt=[words.eos_token_id], show_special=shown)
    whole = "".join(texts_of(answered(words, request, ids)))
    events = answered(words, replace(request, stop=tuple(stop), keep_stop=keep), ids)
    told, hit = up_to(whole, stop, keep)
    assert "".join(texts_of(events)) == told
    assert (end_of(events).stop or "") == hit
    assert end_of(events).tokens == sum(isinstance(event, Token) for event in events)


@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
@given(
    before=st.sampled_from(["", "so ", "<tool_call>", " ", "a <"]),
    after=st.sampled_from(["", "</tool_call>", "; ", "}", " x"]),
    call=st.sampled_from([CALL, f"{CALL};{CALL}", f"[{CALL}, {CALL}]", CALL[:-9], "[weather(city='x')]"]),
)
@settings(max_examples=60, deadline=None)
def test_a_streams_calls_joined_are_those_of_its_text(kind: str, before: str, call: str, after: str) -> None:
    words = tokenizer(kind)
    ids = ids_of(words, before + call + after)
    request = replace(ASKED, prompt=[words.eos_token_id])
    whole = "".join(texts_of(answered(words, request, ids)))
    events = answered(words, replace(request, tools=(WEATHER,)), ids)
    reader = ToolCalls([WEATHER])
    read = [*reader.feed(whole), *reader.flush()]
    assert calls_of(events) == calls_of(read)
    assert "".join(texts_of(events)) == "".join(piece for piece in read if isinstance(piece, str))


def up_to(text: str, stops: list[str], keep: bool) -> tuple[str, str]:
    """(the text up to the stop string that is completed first, that string)"""
    for end in range(1, len(text) + 1):
        if found := [stop for stop in stops if text[:end].endswith(stop)]:
            hit = max(found, key=len)
            return text[: end if keep else end - len(hit)], hit
    return text, ""


def calls_of(told: Iterable[object]) -> dict[int, tuple[str, bool]]:
    calls: dict[int, tuple[str, bool]] = {}
    for piece in told:
        if isinstance(piece, CallDelta):
            calls[piece.number] = (calls.get(piece.number, ("",))[0] + piece.arguments, piece.done)
    return calls


def answered(words: Any, request: GenerationRequest, ids: list[int]) -> list[Event]:
    engine = FakeEngine()
    backend = LocalBackend(
        engine,  # type: ignore[arg-type]
        words,
        model_id="tiny",
        context=999,
        vocab=421,
        ends=frozenset([words.eos_token_id]),
        metrics=Metrics(),
        compiler=FakeCompiler(),  # type: ignore[arg-type]
    )
    stream = backend.generate(request)
    engine.say(ids, reason="length")
    return list(stream)
