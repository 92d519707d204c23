"""Hooks that move activations between devices: a layer's inputs to its device, the last output back.

A layer computes where its weights are, on the CPU too; weights never move. Masks and rotary tables, which all
layers share, are copied to a device once per forward pass. Knows modules and devices; not what tensors mean.
"""

from collections import UserDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.nn import Module

from inference.model.placement.device_map import device_of, layer_stacks


class DeviceCopies:
    """Caches copies of tensors on other devices during a forward pass, in which nothing may modify them."""

    def __init__(self) -> None:
        self.by_device: dict[tuple[int, torch.device], tuple[torch.Tensor, torch.Tensor]] = {}

    def on_device(self, device: torch.device, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor itself if it is on `device`, else its copy there."""
        if tensor.device == device:
            return tensor
        key = id(tensor), device
        if key not in self.by_device:  # keep the tensor too: a freed one's id is reused
            self.by_device[key] = tensor, tensor.to(device)
        return self.by_device[key][1]

    def clear(self) -> None:
        self.by_device.clear()


def install_placement_hooks(model: Any) -> None:
    """Hook the layers of a model on several devices; outputs return to model.device, where the ids are."""
    for names in layer_stacks(model):
        hook_layers([model.get_submodule(name) for name in names], model.device)


def hook_layers(layers: Sequence[Module], home: torch.device) -> None:
    """Hook the layers of an encoder or decoder, in computing order. home: device of the last output."""
    if not layers:
        return
    copies = DeviceCopies()
    layers[0].register_forward_pre_hook(partial(clear_copies, copies))
    for layer in layers:
        hook = partial(move_inputs, copies, device_of(layer))
        layer.register_forward_pre_hook(hook, with_kwargs=True)
    layers[-1].register_forward_hook(partial(move_output, home, copies))


def clear_copies(copies: DeviceCopies, layer: Module, args: tuple[Any, ...]) -> None:
    """Pre-hook of the first layer: drops the copies of a forward pass that failed."""
    copies.clear()


def move_inputs(
    copies: DeviceCopies, device: torch.device, layer: Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Pre-hook of a layer: moves its arguments to its device.

    The first argument, the hidden states, differs for each layer, so its copy is not cached.
    """
    bring = partial(copies.on_device, device)
    hidden = tuple(map_tensors(value, lambda tensor: tensor.to(device)) for value in args[:1])
    return hidden + map_tensors(args[1:], bring), map_tensors(kwargs, bring)


def move_output(
    home: torch.device, copies: DeviceCopies, layer: Module, args: tuple[Any, ...], output: Any
) -> Any:
    """Hook of the last layer: moves its output to `home`, and drops the copies of this forward pass."""
    copies.clear()
    return map_tensors(output, lambda tensor: tensor.to(home))


def map_tensors(value: Any, transfer: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Apply `transfer` to all tensors in nested tuples, lists and dicts; other objects stay as they are.

    A UserDict, in which transformers keeps what layers share of keys and values, is changed in place: later
    layers add to the same object.
    """
    if isinstance(value, torch.Tensor):
        return transfer(value)
    if type(value) in (tuple, list):
        return type(value)(map_tensors(item, transfer) for item in value)
    if type(value) is dict:
        return {name: map_tensors(item, transfer) for name, item in value.items()}
    if isinstance(value, UserDict):
        value.update({name: map_tensors(item, transfer) for name, item in value.items()})
    return value
