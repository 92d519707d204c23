"""What each form of the sampling parameters means."""

from typing import Any

import msgspec
import pytest

from api.llama_stack.parse import parse_sampling
from api.llama_stack.protocol.inference import SamplingParams
from inference.errors import BadRequest
from inference.sampling import Sampling

GREEDY = Sampling(greedy=True)
OLD_DEFAULTS = {
    "strategy": "greedy",
    "temperature": 0.0,
    "top_p": 0.95,
    "top_k": 0,
    "max_tokens": 0,
    "repetition_penalty": 1.0,
}


def read(params: dict[str, Any], temperature: float = 1.0) -> Sampling:
    return parse_sampling(msgspec.convert(params, SamplingParams), temperature)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, GREEDY),
        (dict.fromkeys(OLD_DEFAULTS), GREEDY),
        (OLD_DEFAULTS, GREEDY),
        ({"strategy": "greedy", "temperature": 0.7}, GREEDY),
        ({"strategy": {"type": "greedy"}}, GREEDY),
        ({"temperature": 1}, GREEDY),
        ({"temperature": 0}, GREEDY),
        ({"temperature": 0.7}, Sampling(temperature=0.7)),
        ({"temperature": 0.7, "top_p": 0.9, "top_k": 5}, Sampling(temperature=0.7, top_p=0.9, top_k=5)),
        (OLD_DEFAULTS | {"strategy": "top_p"}, GREEDY),
        ({"strategy": "top_p"}, Sampling(top_p=0.95)),
        (
            {"strategy": "top_p", "temperature": 0.5, "top_p": 0.8, "top_k": 3},
            Sampling(temperature=0.5, top_p=0.8),
        ),
        ({"strategy": "top_k", "top_k": 3, "top_p": 0.8}, Sampling(top_k=3)),
        ({"strategy": {"type": "top_p", "temperature": 0.5}}, Sampling(temperature=0.5, top_p=0.95)),
        ({"strategy": {"type": "top_p", "temperature": None, "top_p": 0.3}}, Sampling(top_p=0.3)),
        ({"strategy": {"type": "top_k", "top_k": 7}}, Sampling(top_k=7)),
        ({"repetition_penalty": 1.2}, Sampling(greedy=True, repetition_penalty=1.2)),
        ({"seed": 7}, Sampling(greedy=True, seed=7)),
    ],
)
def test_parameters_mean_what_the_protocol_says(params: dict[str, Any], expected: Sampling) -> None:
    assert read(params) == expected


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, Sampling(temperature=0.6)),
        ({"temperature": 1}, GREEDY),
        ({"strategy": "greedy"}, GREEDY),
        ({"strategy": {"type": "top_k", "top_k": 2}}, Sampling(temperature=0.6, top_k=2)),
    ],
)
def test_the_temperature_setting_is_the_default(params: dict[str, Any], expected: Sampling) -> None:
    assert read(params, temperature=0.6) == expected


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"strategy": "beam"}, "sampling_params.strategy"),
        ({"strategy": {"type": "beam"}}, "sampling_params.strategy.type"),
        ({"strategy": {"type": "top_p", "temperature": 0.0}}, "sampling_params.strategy.temperature"),
        ({"strategy": {"type": "top_k", "top_k": 0}}, "sampling_params.strategy.top_k"),
        ({"strategy": {"type": "top_k"}}, "sampling_params.strategy.top_k"),
    ],
)
def test_a_strategy_out_of_range_is_refused(params: dict[str, Any], field: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        read(params)
    assert refusal.value.field == field
