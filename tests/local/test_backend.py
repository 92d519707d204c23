"""LocalBackend: what the engine is asked for, and the events that its outputs become."""

from dataclasses import replace
from typing import Any

import pytest

from inference.backend import Backend
from inference.engine.step_output import PromptLogprob, StepOutput
from inference.errors import BadRequest, MaxTokensTooLarge, Overloaded, TooLong
from inference.events import CallDelta, Event, Finished, Started, Token
from inference.local import LocalBackend
from inference.sampling import Sampling
from inference.types import Constraint, GenerationRequest, Message, Tool
from inference.validation import MAX_DETOKENIZE_IDS
from tests.local.conftest import FakeCompiler
from tests.local.fake_engine import FakeEngine

SAMPLED = Sampling()
GREEDY = Sampling(greedy=True)
WEATHER = Tool("weather", "of a city", {"type": "object", "properties": {"city": {"type": "string"}}})


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Token | Finished))


def ids_of(words: Any, text: str) -> list[int]:
    return words.encode(text, add_special_tokens=False)


def test_an_answer_starts_sends_each_token_and_finishes(
    backend: LocalBackend, engine: FakeEngine, words: Any
) -> None:
    stream = backend.generate(GenerationRequest("The quick", sampling=GREEDY))
    answer_ids = ids_of(words, " brown fox")
    engine.say(answer_ids, end=words.eos_token_id)
    first, *tokens, last = stream
    assert first == Started(
        0,
        len(engine.requests[0].prompt),
        cached_tokens=0,
        prompt_token_ids=engine.requests[0].prompt,
    )
    assert [token.id for token in tokens] == [*answer_ids, words.eos_token_id]
    assert "".join(token.text for token in tokens) == " brown fox"
    assert tokens[-1] == Token(0, words.eos_token_id, "", is_special=True, spelling=words.eos_token)
    assert last == Finished(0, "stop", num_tokens=len(tokens))


def test_the_special_tokens_of_the_tokenizers_configuration_are_single_ids(
    backend: LocalBackend, words: Any
) -> None:
    """lm-eval's remote tokenizer reads their ids in this way."""
    config = backend.tokenizer_config()
    for name in ("bos_token", "eos_token"):
        request = GenerationRequest(config[name], add_special_tokens=False)
        (token,) = backend.tokenize(request).token_spans
        assert token.id == getattr(words, f"{name}_id")


def test_a_request_is_resolved_for_the_engine(backend: LocalBackend, engine: FakeEngine, words: Any) -> None:
    sampling = Sampling(temperature=0.5, top_k=5, seed=7)
    request = GenerationRequest("The", sampling, max_tokens=9, min_tokens=2, stop_token_ids=(11,), logprobs=3)
    backend.generate(request)
    [resolved] = engine.requests
    assert list(resolved.prompt) == ids_of(words, "The")
    assert (resolved.max_tokens, resolved.min_tokens, resolved.logprobs) == (9, 2, 3)
    assert resolved.sampling == sampling
    assert resolved.stop_token_ids == (11, words.eos_token_id)


def test_without_a_limit_an_answer_may_fill_the_context(backend: LocalBackend, engine: FakeEngine) -> None:
    backend.generate(GenerationRequest([5] * 60))
    backend.generate(GenerationRequest([5] * 60, max_tokens=1000))
    assert [each.max_tokens for each in engine.requests] == [4, 4]


@pytest.mark.parametrize("backend", [{"max_answer_tokens": 9}], indirect=True)
def test_a_limit_of_answers_cuts_them_and_refuses_none(backend: LocalBackend, engine: FakeEngine) -> None:
    for max_tokens in (None, 3, 1000):
        backend.generate(GenerationRequest([5] * 8, max_tokens=max_tokens, reject_if_too_long=True))
    assert [each.max_tokens for each in engine.requests] == [9, 3, 9]


def test_a_prompt_that_fills_the_context_is_too_long(backend: LocalBackend) -> None:
    with pytest.raises(TooLong) as caught:
        backend.generate(GenerationRequest([5] * 64))
    assert (caught.value.field, caught.value.limit, caught.value.length) == ("prompt", 64, 64)


def test_a_scored_prompt_may_fill_the_context(backend: LocalBackend, engine: FakeEngine) -> None:
    stream = backend.generate(GenerationRequest([5] * 64, max_tokens=0, prompt_logprobs=1))
    scores = [PromptLogprob(), *[PromptLogprob(-1.0, ((6, -0.5),), 2)] * 63]
    engine.put(StepOutput(num_cached_tokens=0, prompt_logprobs=tuple(scores), finish_reason="length"))
    started, finished = stream
    assert isinstance(started, Started)
    assert started.prompt_logprobs[0].logprob is None
    assert (started.prompt_logprobs[1].id, started.prompt_logprobs[1].rank) == (5, 2)
    assert started.prompt_logprobs[1].top_logprobs[0].id == 6
    assert finished == Finished(0, "length", seed=finished.seed)


def test_a_request_for_processed_logprobs_is_passed_on(backend: LocalBackend, engine: FakeEngine) -> None:
    backend.generate(GenerationRequest("The", SAMPLED, logprobs=0, processed_logprobs=True))
    backend.generate(GenerationRequest("The", SAMPLED, logprobs=0))
    assert [each.processed_logprobs for each in engine.requests] == [True, False]


def test_a_random_seed_is_used_and_reported(backend: LocalBackend, engine: FakeEngine) -> None:
    stream = backend.generate(GenerationRequest("The", SAMPLED))
    engine.say([5], reason="length")
    assert list(stream)[-1] == Finished(0, "length", num_tokens=1, seed=engine.requests[0].sampling.seed)


def test_several_answers_have_different_seeds(backend: LocalBackend, engine: FakeEngine) -> None:
    stream = backend.generate(GenerationRequest("The", Sampling(seed=3), n=3))
    for index in (2, 0, 1):
        engine.say([5], reason="length", request=index)
    ends = [event for event in stream if isinstance(event, Finished)]
    assert [(end.index, end.seed) for end in ends] == [(2, 5), (0, 3), (1, 4)]
    assert [each.sampling.seed for each in engine.requests] == [3, 4, 5]


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(temperature=0.0, seed=1)])
def test_a_greedy_answer_has_no_seed(backend: LocalBackend, engine: FakeEngine, sampling: Sampling) -> None:
    stream = backend.generate(GenerationRequest("The", sampling))
    engine.say([5])
    assert engine.requests[0].sampling.greedy
    assert list(stream)[-1].seed is None


def test_a_stop_string_ends_the_answer_and_cancels_the_rest(
    backend: LocalBackend, engine: FakeEngine, words: Any
) -> None:
    stream = backend.generate(GenerationRequest("The", GREEDY, stop=("fox jumps",)))
    engine.say(ids_of(words, " brown fox jumps over"), reason="length")
    events = list(stream)
    assert text_of(events) == " brown "
    assert events[-1].finish_reason == "stop"
    assert events[-1].stop == "fox jumps"
    assert events[-1].num_tokens == len([event for event in events if isinstance(event, Token)])
    assert engine.cancelled == [0]


def test_text_withheld_for_a_stop_string_is_sent_at_the_end(
    backend: LocalBackend, engine: FakeEngine, words: Any
) -> None:
    stream = backend.generate(GenerationRequest("The", GREEDY, stop=("fox jumps",)))
    engine.say(ids_of(words, " brown fox j"), reason="length")
    events = list(stream)
    assert text_of(events) == " brown fox j"
    assert (events[-1].finish_reason, events[-1].stop) == ("length", None)
    assert engine.cancelled == []


def test_stop_strings_are_ignored_before_min_tokens(
    backend: LocalBackend, engine: FakeEngine, words: Any
) -> None:
    ids = [words.convert_tokens_to_ids(letter) for letter in "xxaxa"]
    stream = backend.generate(GenerationRequest("The", GREEDY, stop=("a",), min_tokens=3))
    engine.say(ids, reason="length")
    assert text_of(list(stream)) == "xxax"


def test_a_stop_token_of_the_request_is_reported(backend: LocalBackend, engine: FakeEngine) -> None:
    stream = backend.generate(GenerationRequest("The", GREEDY, stop_token_ids=(40,)))
    engine.say([5], end=40)
    *_, token, end = stream
    assert (token.text, token.is_special) == ("", True)
    assert (end.finish_reason, end.stop) == ("stop", 40)


def test_an_ignored_end_token_adds_no_text(backend: LocalBackend, engine: FakeEngine, words: Any) -> None:
    stream = backend.generate(GenerationRequest("The", GREEDY, ignore_eos=True))
    engine.say([words.eos_token_id, *ids_of(words, " fox")], reason="length")
    assert engine.requests[0].stop_token_ids == ()
    assert text_of(list(stream)) == " fox"


def test_logprobs_come_with_the_text_of_their_alternatives(
    backend: LocalBackend, engine: FakeEngine, words: Any
) -> None:
    [fox] = ids_of(words, " fox") if len(ids_of(words, " fox")) == 1 else [words.convert_tokens_to_ids("x")]
    stream = backend.generate(GenerationRequest("The", GREEDY, logprobs=1))
    engine.put(StepOutput((fox,), (-0.25,), (((fox, -0.25),),), num_cached_tokens=2, finish_reason="length"))
    _, token, _ = stream
    assert token.logprob == -0.25
    assert [(other.id, other.text, other.logprob) for other in token.top_logprobs] == [
        (fox, token.text, -0.25)
    ]


def test_a_character_of_several_tokens_is_sent_when_it_is_complete(
    backend: LocalBackend, engine: FakeEngine, words: Any
) -> None:
    stream = backend.generate(GenerationRequest("The", GREEDY))
    engine.say(ids_of(words, "😀"), reason="length")
    texts = [event.text for event in stream if isinstance(event, Token)]
    assert texts == [*[""] * (len(texts) - 1), "😀"]


def test_a_tool_call_is_sent_as_a_call(backend: LocalBackend, engine: FakeEngine, words: Any) -> None:
    stream = backend.generate(GenerationRequest("The", GREEDY, tools=(WEATHER,)))
    call = '{"name": "weather", "parameters": {"city": "Paris"}}'
    engine.say(ids_of(words, call), end=words.eos_token_id)
    events = list(stream)
    deltas = [event for event in events if isinstance(event, CallDelta)]
    assert {(delta.call_index, delta.name) for delta in deltas} == {(0, "weather")}
    assert "".join(delta.arguments for delta in deltas) == '{"city": "Paris"}'
    assert [delta.done for delta in deltas] == [*[False] * (len(deltas) - 1), True]
    assert text_of(events) == ""


def test_a_call_may_follow_a_special_token(backend: LocalBackend, engine: FakeEngine, words: Any) -> None:
    stream = backend.generate(GenerationRequest("The", GREEDY, tools=(WEATHER,), stop=(": no",)))
    mark = words.convert_tokens_to_ids("<|eot|>")
    call = ids_of(words, '{"name": "weather", "parameters": {}}')
    engine.say([*ids_of(words, "Look: "), mark, *call], end=words.eos_token_id)
    events = list(stream)
    assert [event.name for event in events if isinstance(event, CallDelta) and event.done] == ["weather"]
    assert text_of(events) == "Look: "
    assert [event.id for event in events if isinstance(event, Token) and event.is_special] == [
        mark,
        words.eos_token_id,
    ]


def test_an_answer_without_tokens_is_started_and_finished(backend: LocalBackend, engine: FakeEngine) -> None:
    stream = backend.generate(GenerationRequest("The", GREEDY, deadline=1.0))
    engine.put(StepOutput(num_cached_tokens=0, finish_reason="deadline"))
    assert [type(event) for event in stream] == [Started, Finished]


@pytest.mark.parametrize("tools", [(), (WEATHER,)])
def test_text_that_looks_like_a_call_stays_text_where_calls_are_not_allowed(
    backend: LocalBackend, engine: FakeEngine, words: Any, tools: tuple[Tool, ...]
) -> None:
    stream = backend.generate(GenerationRequest("The", GREEDY, tools=tools, tool_choice="none"))
    call = '{"name": "weather", "parameters": {}}'
    engine.say(ids_of(words, call), reason="length")
    assert text_of(list(stream)) == call


def test_a_chat_answer_starts_at_its_first_word_and_ends_before_the_next_turn(
    backend: LocalBackend, engine: FakeEngine, words: Any
) -> None:
    stream = backend.generate(GenerationRequest([Message("user", "Hi")], GREEDY))
    engine.say(ids_of(words, " Hello.\nUser: and"), reason="length")
    assert text_of(list(stream)) == "Hello."


def test_each_answer_has_its_own_matcher(
    backend: LocalBackend, engine: FakeEngine, compiler: FakeCompiler, words: Any
) -> None:
    regex = Constraint("regex", "[ab]+")
    backend.generate(GenerationRequest("The", n=2, constraint=regex, ignore_eos=True))
    assert compiler.compiled == [(regex, "response_format")]
    first, second = engine.matchers
    assert first is not None
    assert first is not second
    assert engine.requests[0].stop_token_ids == (words.eos_token_id,)


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_nothing_is_forced_if_the_model_may_choose(
    backend: LocalBackend, engine: FakeEngine, compiler: FakeCompiler, choice: str
) -> None:
    backend.generate(GenerationRequest("The", tools=(WEATHER,), tool_choice=choice))
    assert compiler.compiled == [] and engine.matchers == [None]


@pytest.mark.parametrize("choice", ["required", "weather"])
def test_a_required_call_overrides_other_constraints(
    backend: LocalBackend, engine: FakeEngine, compiler: FakeCompiler, choice: str
) -> None:
    regex = Constraint("regex", "[ab]+")
    request = GenerationRequest("The", tools=(WEATHER,), tool_choice=choice, constraint=regex)
    backend.generate(replace(request, tool_format="python_list"))
    [(forced, field)] = compiler.compiled
    assert "weather" in str(forced.spec)
    assert field == "tools"


@pytest.mark.parametrize(("tools", "choice"), [((), "required"), ((WEATHER,), "other")])
def test_a_tool_choice_without_such_a_tool_is_refused(
    backend: LocalBackend, tools: tuple[Tool, ...], choice: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        backend.generate(GenerationRequest("The", tools=tools, tool_choice=choice))
    assert caught.value.field == "tool_choice"


def test_a_refusal_of_the_engine_is_raised_before_anything_is_sent(
    backend: LocalBackend, engine: FakeEngine
) -> None:
    engine.refuses = Overloaded(3)
    with pytest.raises(Overloaded):
        backend.generate(GenerationRequest("The"))


def test_a_deadline_is_relative_to_now(backend: LocalBackend, engine: FakeEngine) -> None:
    backend.generate(GenerationRequest("The", deadline=5.0))
    assert engine.requests[0].deadline == 5.0


def test_the_backend_describes_what_it_serves(backend: LocalBackend, engine: FakeEngine) -> None:
    served: Backend = backend
    info = served.info()
    assert (info.id, info.context, info.vocab) == ("tiny", 64, 400)
    assert "no chat template" in info.chat_fallback_reason
    assert served.unavailable_reason() == ""
    served.close()
    assert served.unavailable_reason() == "stopped"


def test_more_ids_than_a_context_holds_are_not_detokenized(backend: LocalBackend) -> None:
    assert backend.detokenize([5] * MAX_DETOKENIZE_IDS)
    with pytest.raises(TooLong, match=f"^tokens may have at most {MAX_DETOKENIZE_IDS} ids, got 100001$"):
        backend.detokenize([5] * (MAX_DETOKENIZE_IDS + 1))


def test_a_bad_number_is_named(backend: LocalBackend) -> None:
    with pytest.raises(BadRequest, match=r"^top_p must be in \(0, 1\], got 1.5$"):
        backend.generate(GenerationRequest("The", Sampling(top_p=1.5)))


def test_max_tokens_beyond_the_context_are_refused_on_request(backend: LocalBackend) -> None:
    with pytest.raises(MaxTokensTooLarge) as refused:
        backend.generate(GenerationRequest((1,) * 60, max_tokens=5, reject_if_too_long=True))
    assert (refused.value.limit, refused.value.num_prompt_tokens, refused.value.requested_tokens) == (
        64,
        60,
        5,
    )
    backend.generate(GenerationRequest((1,) * 60, max_tokens=4, reject_if_too_long=True))
