"""Who computes a step, and what is packed of a model while it is timed whether native products pay."""

import pytest
import torch

from checks.measure.sampled import fused, sampled
from inference.model.weights.found import find
from inference.model.weights.pays import sample_of
from tests.families import tiny

WIDE = {"hidden_size": 64, "intermediate_size": 640}


@pytest.mark.parametrize("name", ["phi", "llama"])
def test_it_is_what_is_timed(name: str) -> None:
    model = tiny(name, **WIDE)
    timed = sum(found.weight.nbytes for found in sample_of(list(find(model))))
    assert sampled(model.to("meta")) == timed > 0


def test_native_code_computes_what_the_fused_seat_takes() -> None:
    model = tiny("llama", **WIDE).to("meta")
    assert fused(model) and fused(model, "fused")
    assert not fused(model, "slots") and not fused(tiny("phi", **WIDE).to("meta"))


def test_no_dtype_that_native_products_do_not_have() -> None:
    assert sampled(tiny("phi", **WIDE).to("meta", torch.float16)) == 0
