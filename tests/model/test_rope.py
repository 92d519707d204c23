"""Frequencies that transformers changes with the longest sequence of a call."""

import pytest
import torch
from transformers import PreTrainedModel

from inference.model.fit import choose
from inference.model.rope import settle
from tests.families import tiny
from tests.walk import Walk, plain

ORIGINAL = 24
LONG = {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.0, 1.0, 1.0],
    "long_factor": [1.5, 2.0, 3.0, 4.0],
    "original_max_position_embeddings": ORIGINAL,
}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0}


def longrope() -> PreTrainedModel:
    return tiny("llama", rope_parameters=LONG | {"rope_theta": 10_000.0})


def dynamic() -> PreTrainedModel:
    return tiny("llama", rope_parameters=DYNAMIC | {"rope_theta": 10_000.0}, max_position_embeddings=ORIGINAL)


@pytest.mark.parametrize("make", [longrope, dynamic])
def test_a_short_row_does_not_change_when_its_neighbour_grows_long(make) -> None:  # noqa: ANN001
    model = make()
    fitted = choose(model, max_rows=4, context=64, kv_bytes=1 << 24, kinds=("slots",))
    walk = Walk(model, fitted.runner)
    walk.join(list(range(5, 35)))
    walk.join([5, 9, 13])
    walk.step([30, 3])
    walk.step([5, 1])
    assert walk.error < 1e-4


def test_within_the_original_length_nothing_changes() -> None:
    model, tokens = longrope(), list(range(5, 5 + ORIGINAL))
    before = plain(model, tokens, [])
    assert settle(model, ORIGINAL) == ["longrope"]
    assert torch.equal(plain(model, tokens, []), before)


def test_beyond_it_all_have_the_frequencies_of_a_long_sequence() -> None:
    model, tokens = longrope(), list(range(5, 45))
    before = plain(model, tokens, [])
    settle(model, 64)
    assert torch.equal(plain(model, tokens, []), before)
    assert settle(model, 64) == []
