"""Models whose weights are replaced: they compute as before, and the replacement can be undone."""

import copy
import gc
import weakref
from collections.abc import Iterator

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from inference.model.quantization.packed_tensor import PackedWeight
from inference.model.quantization.replace import (
    Pack,
    compute_in_float32,
    packed_weights,
    replace_weights,
    restore_weights,
)
from inference.model.quantization.schemes import NONE
from tests.model.quantization.torch_matrix import TorchMatrix
from tests.tiny_models.families import tiny
from tests.walks.batch_walk import plain

SWAPPED = (
    "gpt2",
    "bloom",
    "gpt_neox",
    "t5",
    "bart",
    "mixtral",
    "llama",
    "falcon",
    "mamba",
    "jamba",
    "phi",
    "opt",
)
IDS, SOURCE = [5, 9, 13, 40, 41, 42, 43], [7, 8, 9]


@pytest.fixture(params=[TorchMatrix], ids=["torch"])
def pack(request: pytest.FixtureRequest) -> Iterator[Pack]:
    yield request.param


def logits(model: PreTrainedModel) -> torch.Tensor:
    return plain(model, IDS, SOURCE if model.config.is_encoder_decoder else [])


def bytes_of(model: nn.Module) -> int:
    """Bytes of the weights that torch stores."""
    own = [weight for weight in model.parameters() if not isinstance(weight, PackedWeight)]
    return sum(weight.untyped_storage().nbytes() for weight in own)


@pytest.mark.parametrize("name", SWAPPED)
def test_a_model_with_replaced_weights_computes_as_before_and_can_be_restored(name: str, pack: Pack) -> None:
    model = tiny(name)
    before, weights = logits(model), {key: value.clone() for key, value in model.state_dict().items()}
    count, size = model.num_parameters(), bytes_of(model)
    swaps = replace_weights(model, NONE, pack)
    assert len(swaps) > 4 and bytes_of(model) < size
    assert (logits(model) - before).abs().max() < 1e-5 * before.abs().max()
    assert (model.num_parameters(), model.dtype, model.device.type) == (count, torch.float32, "cpu")
    restore_weights(swaps)
    assert list(model.state_dict()) == list(weights)
    assert all(torch.equal(value, weights[key]) for key, value in model.state_dict().items())
    assert (logits(model) - before).abs().max() < 1e-5 * before.abs().max()


@pytest.mark.parametrize("name", ["gpt2", "phi", "mixtral"])
def test_a_packed_model_in_bfloat16_can_compute_in_float32(name: str, pack: Pack) -> None:
    """Experts, transposed weights, biases and tied weights included; no weight is unpacked for it."""
    model = tiny(name).to(torch.bfloat16)
    expected = logits(copy.deepcopy(model).float())
    swaps = replace_weights(model, NONE, pack)
    compute_in_float32(model)
    weights = [each.weight for each in packed_weights(model)]
    assert len(weights) == len(swaps) and model.dtype == torch.float32
    assert (logits(model) - expected).abs().max() < 1e-5 * expected.abs().max()
    assert not any(weight.num_unpacked for weight in weights)


@pytest.mark.parametrize("name", ["gpt2", "phi", "mixtral"])
def test_restoring_weights_frees_the_replacements(name: str, pack: Pack) -> None:
    """At once, not only after garbage collection."""
    swaps = replace_weights(tiny(name), NONE, pack)
    weight_refs = [weakref.ref(each.weight) for each in swaps]
    gc.collect()
    gc.disable()
    try:
        restore_weights(swaps)
        assert not swaps and weight_refs and [ref() for ref in weight_refs] == [None] * len(weight_refs)
    finally:
        gc.enable()
