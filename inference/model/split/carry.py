"""Tensors follow the layers: what a layer is given comes to its device, what the last one gives comes home.

A layer computes where its weights are, on the CPU too; no weight moves. Masks and rotary tables, which every
layer is given, come to a device once a pass. Knows modules and devices; not what the tensors mean.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.nn import Module

from inference.model.split.copies import Copies
from inference.model.split.spread import device_of, stacks


def carry(model: Any) -> None:
    """Have tensors follow the layers of a model that is on several devices; home is that of the token ids."""
    for names in stacks(model):
        follow([model.get_submodule(name) for name in names], model.device)


def follow(layers: Sequence[Module], home: torch.device) -> None:
    """Hook the layers of one stack, which compute one after the other."""
    copies = Copies()
    layers[0].register_forward_pre_hook(partial(begin, copies))
    for layer in layers:
        hook = partial(arrive, copies, device_of(layer))
        layer.register_forward_pre_hook(hook, with_kwargs=True)
    layers[-1].register_forward_hook(partial(leave, home))


def begin(copies: Copies, layer: Module, args: tuple[Any, ...]) -> None:
    """Before the first layer: what was copied in the pass before is of no more use."""
    copies.clear()


def arrive(
    copies: Copies, device: torch.device, layer: Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Before a layer: its arguments on its device. The first are the hidden states, new to each layer."""
    bring = partial(copies.on, device)
    hidden = tuple(moved(value, lambda tensor: tensor.to(device)) for value in args[:1])
    return hidden + moved(args[1:], bring), moved(kwargs, bring)


def leave(home: torch.device, layer: Module, args: tuple[Any, ...], output: Any) -> Any:
    """After the last layer: its output at home."""
    return moved(output, lambda tensor: tensor.to(home))


def moved(value: Any, move: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The value with its tensors moved, those in tuples, lists and dicts too; a cache stays what it is."""
    if isinstance(value, torch.Tensor):
        return move(value)
    if type(value) in (tuple, list):
        return type(value)(moved(item, move) for item in value)
    if type(value) is dict:
        return {name: moved(item, move) for name, item in value.items()}
    return value
