"""Which layers a model has, in the order they compute, and on which device each of them goes.

A model's layers are the longest list of modules of its decoder, behind that of its encoder where it has one.
Everything else, the embeddings, the head, the last norm, goes with the first layer: a head may share its
weights with the embeddings, and the logits are where the ids are. Knows modules and devices' names; moves
nothing.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Any

from torch.nn import Module, ModuleList

CPU = "cpu"


def places(counts: Sequence[int], layers: int) -> tuple[str, ...]:
    """The device of each layer: counts[i] of them on GPU i, the first on the first, the rest on the CPU."""
    gpus = chain.from_iterable(repeat(f"cuda:{gpu}", count) for gpu, count in enumerate(counts))
    found = (*gpus, *repeat(CPU, layers))
    return found[:layers]


def device_map(model: Module, devices: Sequence[str]) -> dict[str, str]:
    """Where each module goes, by name as transformers takes it; "" is for those that are not named.

    Raises ValueError where the model has another number of layers than there are devices.
    """
    names = [name for stack in stacks(model) for name in stack]
    if len(names) != len(devices):
        raise ValueError(f"the model has {len(names)} layers, and there are devices for {len(devices)}")
    return {"": devices[0], **dict(zip(names, devices, strict=True))}


def stacks(model: Any) -> list[list[str]]:
    """The names of the model's layers: the encoder's, if it has one, and the decoder's."""
    encoder = [model.get_encoder()] if model.config.is_encoder_decoder else []
    found = [max(lists(part), key=len, default=ModuleList()) for part in (*encoder, model.get_decoder())]
    names = {module: name for name, module in model.named_modules()}
    return [[names[layer] for layer in stack] for stack in found]


def lists(module: Module) -> Iterator[ModuleList]:
    """Lists of modules that are in no other list."""
    for child in module.children():
        if isinstance(child, ModuleList):
            yield child
        else:
            yield from lists(child)


def device_of(module: Module) -> Any:
    """The device of a module's weights; None where it has none."""
    return next((weight.device for weight in chain(module.parameters(), module.buffers())), None)
