"""Places a model's layers on devices: finds the layers in the order they compute, and builds a device_map.

A model's layers are the longest ModuleList of its decoder, preceded by that of its encoder if it has one. All
other modules (embeddings, output layer, last norm) are placed with the first layer: the output layer may be
tied to the embeddings, and the logits are then on the device of the token ids. Knows modules, device names
and how transformers loads onto several devices (hooks.py replaces accelerate's dispatch).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from itertools import chain, repeat
from typing import Any

import torch
from torch.nn import Module, ModuleList
from transformers import modeling_utils

from inference.errors import BadRequest
from inference.process.imports.deferred_torch import with_meta_kernels

CPU = "cpu"


def layer_devices(counts: Sequence[int], layers: int) -> tuple[str, ...]:
    """The device of each layer: counts[0] layers on GPU 0, counts[1] on GPU 1, …, the rest on the CPU."""
    gpus = chain.from_iterable(repeat(f"cuda:{gpu}", count) for gpu, count in enumerate(counts))
    devices = (*gpus, *repeat(CPU, layers))
    return devices[:layers]


def device_map(model: Module, devices: Sequence[str]) -> dict[str, str]:
    """transformers' device_map: module name → device; "" stands for all modules that are not named.

    devices: one per layer. Raises ValueError if the model has another number of layers.
    """
    names = [name for stack in layer_stacks(model) for name in stack]
    if len(names) != len(devices):
        raise ValueError(f"the model has {len(names)} layers, and there are devices for {len(devices)}")
    return {"": devices[0], **dict(zip(names, devices, strict=True))}


def layer_stacks(model: Any) -> list[list[str]]:
    """The names of the model's layers: the encoder's, if it has one, and the decoder's."""
    encoder = [model.get_encoder()] if model.config.is_encoder_decoder else []
    longest = [
        max(module_lists(half), key=len, default=ModuleList()) for half in (*encoder, model.get_decoder())
    ]
    names = {module: name for name, module in model.named_modules()}
    return [[names[layer] for layer in stack] for stack in longest]


def module_lists(module: Module) -> Iterator[ModuleList]:
    """Yield the ModuleLists in a module that are not inside another ModuleList."""
    for child in module.children():
        if isinstance(child, ModuleList):
            yield child
        else:
            yield from module_lists(child)


def device_of(module: Module) -> Any:
    """The device of a module's first weight or buffer; None if it has neither."""
    return next((weight.device for weight in chain(module.parameters(), module.buffers())), None)


def build_device_map(
    auto_class: Any, config: Any, devices: Sequence[str], trust_remote_code: bool
) -> dict[str, str]:
    """The device_map of a model that is not loaded yet, from its config; devices: one per layer.

    Raises BadRequest if the model has another number of layers.
    """
    with torch.device("meta"):
        skeleton = with_meta_kernels(
            lambda: auto_class.from_config(deepcopy(config), trust_remote_code=trust_remote_code), Exception
        )
    try:
        return device_map(skeleton, devices)
    except ValueError as error:
        raise BadRequest("LAYERS", f"does not fit the model: {error}") from error


@contextmanager
def without_accelerate_dispatch() -> Iterator[None]:
    """Inside this context transformers does not pass a model on several devices to accelerate.

    accelerate would compute the CPU's layers on a GPU and copy their weights there at every step.
    """
    dispatch = modeling_utils.accelerate_dispatch
    modeling_utils.accelerate_dispatch = lambda *args, **kwargs: None
    try:
        yield
    finally:
        modeling_utils.accelerate_dispatch = dispatch
