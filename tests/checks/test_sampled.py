"""What is packed of a model while it is timed whether native products pay."""

import pytest
import torch

from checks.measure.sampled import sampled
from inference.model.weights.found import find
from inference.model.weights.pays import sample_of
from tests.families import tiny

WIDE = {"hidden_size": 64, "intermediate_size": 640}


@pytest.mark.parametrize("name", ["phi", "llama"])
def test_it_is_what_is_timed(name: str) -> None:
    model = tiny(name, **WIDE)
    timed = sum(found.weight.nbytes for found in sample_of(list(find(model))))
    assert sampled(model.to("meta"), "slots") == timed > 0


def test_nothing_is_timed_of_what_the_fused_seat_packs() -> None:
    model = tiny("llama", **WIDE).to("meta")
    assert sampled(model) == sampled(model, "fused") == 0
    assert sampled(tiny("phi", **WIDE).to("meta")) > 0


def test_no_dtype_that_native_products_do_not_have() -> None:
    assert sampled(tiny("phi", **WIDE).to("meta", torch.float16)) == 0
