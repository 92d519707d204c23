"""TGI's upstreams: what is sent for a text, and the events that an answer becomes."""

from itertools import islice
from typing import Any

import pytest

from inference.errors import BadRequest, Unavailable
from inference.events import Finished, Token
from inference.sampling import Sampling
from inference.types import Constraint, GenerationRequest
from tests.remote.broken_answers import break_off, fail
from tests.remote.conftest import CHAT, OpenModel
from tests.remote.fake_upstream import AdvancingLoop, FakeUpstream, Reply, event
from tests.remote.openai_chunks import whole_answer


def token(text: str, id: int = 5, special: bool = False, **fields: Any) -> bytes:
    described = {"id": id, "text": text, "logprob": -0.5, "special": special}
    return event({"index": 1, "token": described, "generated_text": None, "details": None} | fields)


def last(text: str, reason: str = "eos_token", special: bool = True) -> bytes:
    details = {"finish_reason": reason, "generated_tokens": 2, "seed": 7, "input_length": 4}
    return token(text, 2, special, generated_text="all", details=details)


def tokens_of(open_upstream: OpenModel, request: GenerationRequest) -> list[Any]:
    return list(open_upstream("tgi").generate(request))


def test_an_answer_has_its_tokens_and_counts(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    upstream.reply = Reply([token(" Paris"), last("</s>")])
    events = tokens_of(open_upstream, GenerationRequest("The capital"))
    assert [each.text for each in events if isinstance(each, Token)] == [" Paris", ""]
    assert events[-1] == Finished(0, "stop", num_tokens=2, seed=7, prompt_tokens=4)


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        ({"sampling": Sampling(greedy=True)}, {"do_sample": False}),
        (
            {"sampling": Sampling(top_p=0.9, top_k=3, seed=1)},
            {"do_sample": True, "temperature": 1.0, "top_p": 0.9, "top_k": 3, "seed": 1},
        ),
        ({"stop": ("a",), "logprobs": 2, "truncate": 8}, {"stop": ["a"], "top_n_tokens": 2, "truncate": 8}),
        ({"constraint": Constraint("regex", "a+")}, {"grammar": {"type": "regex", "value": "a+"}}),
        ({"sampling": Sampling(tgi_frequency_penalty=0.1)}, {"frequency_penalty": 0.1}),
    ],
)
def test_options_become_parameters_of_tgi(
    options: dict[str, Any], parameters: dict[str, Any], upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    upstream.reply = Reply([last("a")])
    tokens_of(open_upstream, GenerationRequest("hi", max_tokens=3, **options))
    sent = upstream.bodies[-1]["parameters"]
    assert upstream.sent[-1].path.endswith("/generate_stream") and sent["max_new_tokens"] == 3
    assert parameters.items() <= sent.items() and "typical_p" not in sent, "1 would be refused"


def test_stop_strings_leave_the_text(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    upstream.reply = Reply([token("one E"), last("ND", "stop_sequence", special=False)])
    events = tokens_of(open_upstream, GenerationRequest("hi", stop=("END",)))
    assert "".join(each.text for each in events if isinstance(each, Token | Finished)) == "one "
    assert isinstance(events[-1], Finished) and events[-1].stop == "END"


def test_more_stop_strings_than_tgi_takes_end_the_answer_here(
    upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    upstream.reply = Reply([token("one E"), token("ND two"), "wait"])
    events = tokens_of(open_upstream, GenerationRequest("hi", stop=("END", *"abcd")))
    assert "".join(each.text for each in events if isinstance(each, Token | Finished)) == "one "
    assert events[-1] == Finished(0, "stop", stop="END", num_tokens=2)
    assert "stop" not in upstream.bodies[-1]["parameters"]


def test_a_deadline_releases_the_possible_start_of_a_stop_string(
    upstream: FakeUpstream, open_upstream: OpenModel, loop: AdvancingLoop
) -> None:
    upstream.reply = Reply([token("one E"), "wait"])
    stream = open_upstream("tgi").generate(GenerationRequest("hi", stop=("END",), deadline=30.0))
    assert [each.text for each in islice(stream, 2) if isinstance(each, Token)] == ["one "]
    loop.advance(30.0)
    assert list(stream) == [Finished(0, "deadline", "E", num_tokens=1)]


def test_several_answers_are_several_requests(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    upstream.reply = Reply([last("a")])
    events = tokens_of(open_upstream, GenerationRequest("hi", Sampling(seed=3), n=2))
    assert {each.index for each in events} == {0, 1}
    assert sorted(body["parameters"]["seed"] for body in upstream.bodies) == [3, 4]


def test_a_conversation_takes_the_openai_route(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    upstream.reply = whole_answer("yes")
    tokens_of(open_upstream, GenerationRequest(CHAT))
    assert upstream.sent[-1].path.endswith("/v1/chat/completions")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"sampling": Sampling(min_p=0.1)}, "min_p"),
        ({"logprobs": 6}, "logprobs"),
        ({"constraint": Constraint("choice", ("a", "b"))}, "response_format"),
    ],
)
def test_what_tgi_cannot_do_is_refused_by_name(
    options: dict[str, Any], field: str, open_upstream: OpenModel
) -> None:
    with pytest.raises(BadRequest) as refusal:
        tokens_of(open_upstream, GenerationRequest("hi", **options))
    assert refusal.value.field == field and "TGI" in refusal.value.message


@pytest.mark.parametrize(
    "rest",
    [
        [],
        [event({"error": "out of memory", "error_type": "generation"})],
        [event({"index": 1})],
        [token("b", id="5")],  # type: ignore[arg-type]
        [token(5)],  # type: ignore[arg-type]
        [token("", generated_text="a", details={"generated_tokens": -1, "finish_reason": "length"})],
        [token("", generated_text="a", details={"seed": "x", "finish_reason": "length"})],
    ],
)
def test_an_answer_that_breaks_off_is_never_whole(
    rest: list[bytes], upstream: FakeUpstream, open_upstream: OpenModel, loop: AdvancingLoop
) -> None:
    upstream.reply, go_on = break_off([token("a")], rest, loop)
    failure, events = fail(open_upstream("tgi").generate(GenerationRequest("hi")), go_on)
    assert isinstance(failure, Unavailable) and isinstance(events[-1], Token)
