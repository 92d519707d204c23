"""Models whose weights are swapped: they compute as before, and it can be undone."""

import gc
import weakref
from collections.abc import Iterator

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from inference.model.weights.kinds import NONE
from inference.model.weights.swap import Pack, swap, undo
from inference.model.weights.weight import NativeWeight
from tests.families import tiny
from tests.model.weights.kept import Kept
from tests.walk import plain

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


@pytest.fixture(params=[Kept], ids=["torch"])
def pack(request: pytest.FixtureRequest) -> Iterator[Pack]:
    yield request.param


def logits(model: PreTrainedModel) -> torch.Tensor:
    return plain(model, IDS, SOURCE if model.config.is_encoder_decoder else [])


def bytes_of(model: nn.Module) -> int:
    """Of what torch keeps for the weights."""
    own = [weight for weight in model.parameters() if not isinstance(weight, NativeWeight)]
    return sum(weight.untyped_storage().nbytes() for weight in own)


@pytest.mark.parametrize("name", SWAPPED)
def test_a_swapped_model_computes_as_before_and_undone_is_as_before(name: str, pack: Pack) -> None:
    model = tiny(name)
    before, weights = logits(model), {key: value.clone() for key, value in model.state_dict().items()}
    count, size = model.num_parameters(), bytes_of(model)
    swaps = swap(model, NONE, pack)
    assert len(swaps) > 4 and bytes_of(model) < size
    assert (logits(model) - before).abs().max() < 1e-5 * before.abs().max()
    assert (model.num_parameters(), model.dtype, model.device.type) == (count, torch.float32, "cpu")
    undo(swaps)
    assert list(model.state_dict()) == list(weights)
    assert all(torch.equal(value, weights[key]) for key, value in model.state_dict().items())
    assert (logits(model) - before).abs().max() < 1e-5 * before.abs().max()


@pytest.mark.parametrize("name", ["gpt2", "phi", "mixtral"])
def test_what_is_undone_is_held_once(name: str, pack: Pack) -> None:
    """Not only once a collector has looked for it."""
    swaps = swap(tiny(name), NONE, pack)
    held = [weakref.ref(each.weight) for each in swaps]
    gc.collect()
    gc.disable()
    try:
        undo(swaps)
        assert not swaps and held and [there() for there in held] == [None] * len(held)
    finally:
        gc.enable()
