"""Builds an adapter's weights for a model: checks every tensor's shape against it, then reads the values.

Knows the keys of a change and the deltas that compute them.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from inference.lora.config import AdapterConfig, read_config, refusal
from inference.lora.files import Shape, TensorFile, check_files, read_shapes
from inference.lora.keys import RoleKeys, TensorRole, group_keys
from inference.model.lora.shard import create_lora_delta
from inference.model.lora.weights import AdapterWeights

A, B = TensorRole.LORA_A, TensorRole.LORA_B


@dataclass(frozen=True, slots=True)
class CheckedAdapter:
    """An adapter whose config and header fit the model; its values are not read yet.

    modules  the tensors of each module, by its name
    ranks    the rank of each module with a low-rank pair
    """

    folder: Path
    config: AdapterConfig
    modules: Mapping[str, RoleKeys]
    ranks: Mapping[str, int]
    nbytes: int

    @property
    def rank(self) -> int:
        return max(self.ranks.values(), default=0)


def check_adapter(model: Any, folder: Path, max_rank: int) -> CheckedAdapter:
    """Check the files without reading a value. Raises BadRequest with the key, and both shapes."""
    check_files(folder)
    config, shapes = read_config(folder, max_rank), read_shapes(folder)
    modules = group_keys(shapes)
    ranks, num_values = {}, 0
    for name, keys in modules.items():
        inputs, outputs = linear_shape(model, name)
        rank = config.rank_of(name)
        check_shape(shapes, keys, A, (rank, inputs), name)
        check_shape(shapes, keys, B, (outputs, rank), name)
        ranks[name] = rank
        num_values += rank * (inputs + outputs)
    return CheckedAdapter(folder, config, modules, ranks, num_values * model.dtype.itemsize)


def linear_shape(model: Any, name: str) -> Shape:
    """(inputs, outputs) of a linear layer. Raises BadRequest if the model has none of this name."""
    try:
        module = model.get_submodule(name)
    except AttributeError:
        raise refusal(f"changes {name}, which this model does not have: it is of another model") from None
    for inputs, outputs in (("in_features", "out_features"), ("nx", "nf")):
        if hasattr(module, inputs) and hasattr(module, outputs):
            return getattr(module, inputs), getattr(module, outputs)
    raise refusal(f"changes {name}, a {type(module).__name__}, which is not served")


def check_shape(
    shapes: Mapping[str, Shape], keys: RoleKeys, role: TensorRole, expected: Shape, name: str
) -> None:
    if role not in keys:
        raise refusal(f"has no {name}{role.value}")
    shape = shapes[keys[role]]
    if shape != expected:
        raise refusal(f"has {keys[role]} of shape {list(shape)}: this model needs {list(expected)}")


def build_weights(model: Any, checked: CheckedAdapter, number: int) -> Generator[None, None, AdapterWeights]:
    """Read the values, and yield after each module. Raises BadRequest for values that are not finite.

    The weights have the dtype of the model and the devices of its modules; with several ranks they are this
    rank's role.
    """
    tensors, deltas, has_effect = TensorFile(checked.folder), {}, False
    for name, keys in checked.modules.items():
        device = device_of(model.get_submodule(name))
        a, b = tensors.read(keys[A]), tensors.read(keys[B])
        has_effect |= bool(b.any())
        b *= checked.config.scale_of(name)
        a, b = (each.to(device, model.dtype) for each in (a, b))
        deltas[name] = create_lora_delta(model, name, a, b)
        yield
    return AdapterWeights(number, deltas, has_effect)


def device_of(module: nn.Module) -> torch.device:
    return next(module.parameters()).device
