"""Each field out of its range is refused by its name, with the rule and the value."""

import math
import sys
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from inference.engine.sampling.warpers import WARPERS
from inference.errors import BadRequest
from inference.sampling import REPETITION_PENALTY, WARPER_NAMES, PenaltyWindow, Sampling, Watermark
from inference.types import GenerationRequest, Tool
from inference.validation import RANGES, check_request


def request(**fields: Any) -> GenerationRequest:
    """A request with these fields; fields of Sampling go into its `sampling`."""
    sampling = {name: fields.pop(name) for name in list(fields) if name in Sampling.__slots__}
    return replace(GenerationRequest("The", Sampling(**sampling)), **fields)


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("temperature", {"temperature": -0.1}),
        ("temperature", {"temperature": math.nan}),
        ("temperature", {"temperature": math.inf}),
        ("top_p", {"top_p": 0.0}),
        ("top_p", {"top_p": 1.01}),
        ("top_k", {"top_k": -1}),
        ("min_p", {"min_p": 2.0}),
        ("repetition_penalty", {"repetition_penalty": 0.0}),
        ("presence_penalty", {"presence_penalty": 2.1}),
        ("frequency_penalty", {"frequency_penalty": -2.1}),
        ("seed", {"seed": 2**64}),
        ("n", {"n": 0}),
        ("n", {"n": 65}),
        ("max_tokens", {"max_tokens": -1}),
        ("min_tokens", {"min_tokens": 5, "max_tokens": 4}),
        ("logprobs", {"logprobs": 21}),
        ("prompt_logprobs", {"prompt_logprobs": -1}),
        ("deadline", {"deadline": 0.0}),
        ("tools", {"tools": (Tool("f", "", {}),) * 1001}),
        ("stop", {"stop": ("",)}),
        ("stop", {"stop": ("x" * 1001,)}),
        ("stop", {"stop": ("x",) * 65}),
        ("stop_token_ids", {"stop_token_ids": (400,)}),
        ("logit_bias", {"logit_bias": {-1: 1.0}}),
        ("logit_bias", {"logit_bias": {1: math.nan}}),
        ("typical_p", {"typical_p": 0.0}),
        ("typical_p", {"typical_p": 1.1}),
        ("tfs", {"tfs": 1.1}),
        ("top_a", {"top_a": -0.1}),
        ("penalty_alpha", {"penalty_alpha": 1.5}),
        ("frequency_penalty", {"tgi_frequency_penalty": -2.1}),
        ("no_repeat_ngram_size", {"no_repeat_ngram_size": -1}),
        ("repetition_penalty", {"penalty_window": PenaltyWindow((), 0.0, 1)}),
        ("repetition_penalty_range", {"penalty_window": PenaltyWindow((), 1.5, -1)}),
        ("repetition_penalty_slope", {"penalty_window": PenaltyWindow((), 1.5, 1, slope=math.nan)}),
        ("repetition_penalty_prompt", {"penalty_window": PenaltyWindow((400,), 1.5, 1)}),
        ("repetition_penalty_prompt", {"penalty_window": PenaltyWindow((1,) * 1_000_001, 1.5, 1)}),
        ("watermark_gamma", {"watermark": Watermark(gamma=0.0)}),
        ("watermark_delta", {"watermark": Watermark(delta=math.inf)}),
        ("truncate", {"truncate": 0}),
        ("bad_words", {"bad_words": ("",)}),
        ("bad_words", {"bad_words": ("x",) * 1_001}),
        ("bad_words", {"bad_words": ("x" * 1_001,)}),
        ("bad_words", {"bad_words_ids": ((),)}),
        ("bad_words", {"bad_words_ids": ((1, 400),)}),
        ("bad_words", {"bad_words_ids": ((1,),) * 4_001}),
        ("bad_words", {"bad_words_ids": ((1,) * 1_001,)}),
        ("bad_words", {"banned_first": frozenset((400,))}),
        ("allowed_token_ids", {"allowed_token_ids": frozenset((-1,))}),
        ("warpers_order", {"warper_order": ("top_p", "mirostat")}),
        ("warpers_order", {"warper_order": ("top_p", "tfs", "top_p")}),
    ],
)
def test_a_field_out_of_its_range_is_named(field: str, fields: dict[str, Any]) -> None:
    with pytest.raises(BadRequest) as caught:
        check_request(request(**fields), vocab=400)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 1.0, "repetition_penalty": 1.3, "seed": -1},
        {"presence_penalty": -2.0, "frequency_penalty": 2.0, "logit_bias": {399: -math.inf, 0: 100.0}},
        {"n": 64, "max_tokens": 0, "logprobs": 0, "prompt_logprobs": 20, "stop": ("x" * 1000,) * 64},
        {"max_tokens": None, "min_tokens": 10**9, "stop_token_ids": (0, 399), "deadline": 0.001},
        {
            "typical_p": 1.0,
            "tfs": 1.0,
            "top_a": 1.0,
            "penalty_alpha": 1.0,
            "tgi_frequency_penalty": 2.0,
            "truncate": 1,
        },
        {"no_repeat_ngram_size": 10**9, "penalty_window": PenaltyWindow((399,), 1.5, 10**12, slope=1e6)},
        {
            "watermark": Watermark(1.0, -100.0),
            "warper_order": WARPER_NAMES,
            "allowed_token_ids": frozenset(),
        },
        {"bad_words_ids": ((399,), (0, 1)), "bad_words": ("x" * 1000,), "banned_first": frozenset((399,))},
    ],
)
def test_the_limits_of_every_range_are_allowed(fields: dict[str, Any]) -> None:
    check_request(request(**fields), vocab=400)


def test_the_message_gives_the_rule_and_the_value() -> None:
    with pytest.raises(BadRequest, match=r"^temperature must be between 0 and 100, got -1$"):
        check_request(request(temperature=-1), vocab=400)


def test_the_first_of_several_errors_is_reported() -> None:
    window, watermark = PenaltyWindow((), 0.0, 1), Watermark(gamma=0.0)
    fields: dict[str, Any] = {
        "repetition_penalty": 0.0,
        "penalty_window": window,
        "presence_penalty": 3.0,
        "watermark": watermark,
        "seed": 2**64,
        "n": 0,
        "stop": ("",),
        "logit_bias": {-1: 1.0},
    }
    reported = []
    while fields:
        with pytest.raises(BadRequest) as caught:
            check_request(request(**fields), vocab=400)
        reported.append((caught.value.field, next(iter(fields))))
        del fields[next(iter(fields))]
    assert reported == [
        ("repetition_penalty", "repetition_penalty"),
        ("repetition_penalty", "penalty_window"),
        ("presence_penalty", "presence_penalty"),
        ("watermark_gamma", "watermark"),
        ("seed", "seed"),
        ("n", "n"),
        ("stop", "stop"),
        ("logit_bias", "logit_bias"),
    ]


def test_every_range_is_that_of_an_attribute() -> None:
    owners = {
        "request": GenerationRequest,
        "sampling": Sampling,
        "penalty_window": PenaltyWindow,
        "watermark": Watermark,
    }
    assert [row for row in RANGES if row[2] not in owners[row[1]].__slots__] == []


def test_a_request_without_options_enters_no_check_of_an_option() -> None:
    entered = []

    def record(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            entered.append(frame.f_code.co_name)

    plain = request(temperature=0.7, max_tokens=16, seed=1)
    sys.setprofile(record)
    try:
        check_request(plain, vocab=400)
    finally:
        sys.setprofile(None)
    assert entered == ["check_request"]


def test_the_engine_has_every_warper_that_an_order_may_name() -> None:
    assert (*WARPERS, REPETITION_PENALTY) == WARPER_NAMES
