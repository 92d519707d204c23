"""Which device each layer goes to."""

import pytest
from torch.nn import Linear, ModuleList

from inference.model.split.spread import device_map, places, stacks
from tests.families import tiny


@pytest.mark.parametrize(
    ("counts", "devices"),
    [
        ([], "cpu cpu cpu"),
        ([1], "cuda:0 cpu cpu"),
        ([0, 2], "cuda:1 cuda:1 cpu"),
        ([1, 0, 2], "cuda:0 cuda:2 cuda:2"),
    ],
)
def test_the_first_layers_are_on_the_gpus_in_order(counts: list[int], devices: str) -> None:
    assert places(counts, 3) == tuple(devices.split())


def test_an_encoders_layers_come_before_its_decoders() -> None:
    assert [stack[0] for stack in stacks(tiny("t5"))] == ["encoder.block.0", "decoder.block.0"]


def test_lists_within_layers_and_beside_them_are_no_layers() -> None:
    model = tiny("mixtral")
    model.model.others = ModuleList([Linear(1, 1)])
    assert stacks(model) == [["model.layers.0", "model.layers.1"]]


def test_everything_else_is_with_the_first_layer() -> None:
    found = device_map(tiny("gpt2"), ["cuda:1", "cpu"])
    assert found == {"": "cuda:1", "transformer.h.0": "cuda:1", "transformer.h.1": "cpu"}


def test_a_device_for_each_layer_is_needed() -> None:
    with pytest.raises(ValueError, match="2 layers, and there are devices for 3"):
        device_map(tiny("gpt2"), ["cuda:0"] * 3)
