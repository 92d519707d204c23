"""Which code computes a step, and how much of a model is packed to time the native matmul."""

import pytest
import torch

from checks.memory.kv_cost import count_pack_sample, may_run_fused
from inference.model.quantization.find_weights import find_weights
from inference.model.quantization.is_faster import sample_of
from tests.tiny_models.families import tiny

WIDE = {"hidden_size": 64, "intermediate_size": 640}


@pytest.mark.parametrize("name", ["phi", "llama"])
def test_the_counted_sample_is_the_timed_one(name: str) -> None:
    model = tiny(name, **WIDE)
    timed = sum(item.weight.nbytes for item in sample_of(list(find_weights(model))))
    assert count_pack_sample(model.to("meta")) == timed > 0


def test_native_code_computes_models_that_the_fused_runner_supports() -> None:
    model = tiny("llama", **WIDE).to("meta")
    assert may_run_fused(model) and may_run_fused(model, "fused")
    assert not may_run_fused(model, "contiguous") and not may_run_fused(tiny("phi", **WIDE).to("meta"))


def test_unsupported_dtypes_have_no_sample() -> None:
    assert count_pack_sample(tiny("phi", **WIDE).to("meta", torch.float16)) == 0
