"""Which device each layer goes to."""

import pytest
from torch.nn import Linear, ModuleList

from inference.model.placement.device_map import device_map, layer_devices, layer_stacks
from tests.tiny_models.families import tiny


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
    assert layer_devices(counts, 3) == tuple(devices.split())


def test_encoder_layers_come_before_decoder_layers() -> None:
    assert [stack[0] for stack in layer_stacks(tiny("t5"))] == ["encoder.block.0", "decoder.block.0"]


def test_module_lists_inside_or_outside_layers_are_not_layer_stacks() -> None:
    model = tiny("mixtral")
    model.model.others = ModuleList([Linear(1, 1)])
    assert layer_stacks(model) == [["model.layers.0", "model.layers.1"]]


def test_other_modules_are_with_the_first_layer() -> None:
    mapping = device_map(tiny("gpt2"), ["cuda:1", "cpu"])
    assert mapping == {"": "cuda:1", "transformer.h.0": "cuda:1", "transformer.h.1": "cpu"}


def test_the_number_of_devices_must_match_the_layers() -> None:
    with pytest.raises(ValueError, match="2 layers, and there are devices for 3"):
        device_map(tiny("gpt2"), ["cuda:0"] * 3)
