"""What two processes say to each other arrives as it was."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.backend_info import ModelInfo
from inference.errors import BadRequest, MaxTokensTooLarge, Overloaded, ServerError, TooLong, Unavailable
from inference.events import CallDelta, Event, Finished, PromptToken, Started, Token, TopLogprob
from inference.link_messages import (
    INFO_DECODER,
    LENGTH_BYTES,
    TOKENIZED_DECODER,
    decode_request,
    encode_request,
    error_frame,
    event_frame,
    frame,
    read_event,
    read_message,
)
from inference.prompt_scoring import PlaceScores
from inference.sampling import PenaltyWindow, Sampling, Watermark
from inference.tokenized import Tokenized, TokenSpan
from inference.types import Constraint, GenerationRequest, Message, TemplateOptions, Tool, ToolCall

SAMPLING = Sampling(
    temperature=0.5,
    logit_bias={3: -math.inf},
    banned_first=frozenset({1}),
    penalty_window=PenaltyWindow((1, 2), 1.2, 3),
    watermark=Watermark(),
    warper_order=("top_k",),
    seed=2**64 - 1,
)
CONVERSATION = (
    Message("user", "hi"),
    Message("assistant", "", tool_calls=(ToolCall("1", "f", "{}"),), reasoning="hm"),
    Message("critic", "a role of the template's own"),
)
REQUEST = GenerationRequest(
    CONVERSATION,
    sampling=SAMPLING,
    template=TemplateOptions(arguments={"thinking": False}),
    constraint=Constraint("json_schema", {"type": "object"}),
    tools=(Tool("f", "d", {"type": "object"}, {"type": "function"}),),
    allowed_tools=frozenset({"f"}),
    prompt_logprobs=0,
)
SPECIAL = TopLogprob(3, "</s>", -math.inf, is_special=True)
EVENTS: list[Event] = [
    Started(0, 2, 1, (1, 2), (PromptToken(1, "a", None, 0, (SPECIAL,), PlaceScores((-1.0,), ((1, -2.0),))),)),
    Token(0, 7, "é", -0.5, (SPECIAL,), spelling="Ã©"),
    CallDelta(0, 0, "call_1", "f", '{"a"', False),
    Finished(0, "stop", "x", 7, 3, seed=2**63),
]


@pytest.mark.parametrize("prompt", [CONVERSATION, "text", "", (1, 2), ()])
def test_a_request_arrives_as_it_was(prompt: str | Sequence[int] | Sequence[Message]) -> None:
    request = GenerationRequest(prompt) if prompt != CONVERSATION else REQUEST
    assert decode_request(encode_request(request)) == request


@given(seed=st.integers(-(2**63), 2**64 - 1), temperature=st.floats(0, 100))
def test_numbers_arrive_exactly(seed: int, temperature: float) -> None:
    request = GenerationRequest("", sampling=Sampling(seed=seed, temperature=temperature))
    assert decode_request(encode_request(request)) == request


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_arrives_as_it_was(event: Event) -> None:
    assert read_event(event_frame(event)[LENGTH_BYTES:]) == event


@pytest.mark.parametrize(
    "error",
    [
        BadRequest("top_p", "must be in (0, 1]", 1.5),
        TooLong("prompt", 10, 12),
        MaxTokensTooLarge(10, 4, 9),
        Overloaded(3),
        Unavailable("no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_arrives_with_its_class_and_attributes(error: ServerError) -> None:
    with pytest.raises(type(error)) as received:
        read_event(error_frame(error)[LENGTH_BYTES:])
    assert type(received.value) is type(error) and vars(received.value) == vars(error)
    assert str(received.value) == str(error)


def test_an_error_that_only_one_process_knows_arrives_as_what_it_is() -> None:
    class NotLoaded(Unavailable):
        retry_after = 3.0

    with pytest.raises(Unavailable, match="it loads") as received:
        read_message(error_frame(NotLoaded("it loads"))[LENGTH_BYTES:], TOKENIZED_DECODER)
    assert type(received.value) is Unavailable


def test_a_range_of_sizes_arrives_as_a_list() -> None:
    info = ModelInfo("m", 8, 9, 0, embedding_sizes=range(1, 4))
    assert list(read_message(frame("result", info)[LENGTH_BYTES:], INFO_DECODER).embedding_sizes) == [1, 2, 3]


def test_a_result_arrives_as_it_was() -> None:
    tokenized = Tokenized("ab", (TokenSpan(1, "a", 0, 1, "▁a"), TokenSpan(2, "b", 1, 2)))
    assert read_message(frame("result", tokenized)[LENGTH_BYTES:], TOKENIZED_DECODER) == tokenized


@pytest.mark.parametrize(
    ("arguments", "rule"), [({"a": 2**64}, "more than 64 bits"), ({"a": "\ud800"}, "lone surrogate")]
)
def test_what_msgpack_does_not_have_is_refused(arguments: dict[str, object], rule: str) -> None:
    with pytest.raises(BadRequest, match=rule):
        encode_request(GenerationRequest("", template=TemplateOptions(arguments=arguments)))
