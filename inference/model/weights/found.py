"""Which weights of a model can be held by a native matrix, and what each of them is for.

Knows a model's modules; nothing of matrices. A model without values, on the meta device, can be asked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

Holder = tuple[nn.Module, str]  # a module, and the name under which it holds a weight

LINEAR = (nn.Linear, Conv1D)
MATRIX, STACK = 2, 3  # dimensions
DTYPES = (torch.float32, torch.bfloat16)
# What chooses for each token which part of a model computes it, as transformers calls it.
ROUTERS = frozenset({"gate", "router", "classifier", "shared_expert_gate"})
# What transformers' modules of experts have, and whether their weights are (…, inputs, outputs).
EXPERTS = "is_transposed"
FEW = 64  # outputs, or inputs


class Role(Enum):
    """LAYER: what most of a model is. SMALL: of few outputs or inputs, or a router. HEAD: makes the logits,
    and may be the embedding as well. EMBEDDING: is looked up, and nothing else. EXPERTS: a stack of weights,
    of which each token takes some."""

    LAYER = "layer"
    SMALL = "small"
    HEAD = "head"
    EMBEDDING = "embedding"
    EXPERTS = "experts"


@dataclass(frozen=True, slots=True)
class Found:
    """A weight of two dimensions, or a stack of such.

    holders  the modules that have it: several where it is tied
    turned   it is (inputs, outputs), as Conv1D has it
    bias     what all who multiply with it add; None where they add nothing
    """

    weight: nn.Parameter
    holders: tuple[Holder, ...]
    role: Role
    turned: bool
    bias: Tensor | None

    @property
    def outputs(self) -> int:
        return self.weight.shape[-1 if self.turned else -2]

    @property
    def inputs(self) -> int:
        return self.weight.shape[-2 if self.turned else -1]


def find(model: Any, device: str = "cpu") -> Iterator[Found]:
    """The weights on the device, each once, in the model's order."""
    head, table = (getattr(layer, "weight", None) for layer in ends(model))
    names = {module: name.rpartition(".")[2] for name, module in model.named_modules()}
    for weight, holders in held(model):
        users = [module for module, _ in holders if isinstance(module, LINEAR)]
        turned = {isinstance(module, Conv1D) for module in users}
        biases = {id(bias): bias for module in users if (bias := added(module)) is not None}
        if not plain(weight, device) or len(turned) > 1 or len(biases) > 1:
            continue
        if weight.dim() == MATRIX and (users or weight is table):
            routes = any(names[module] in ROUTERS for module in users)
            role = role_of(weight, head, bool(users), routes)
            yield Found(weight, holders, role, True in turned, next(iter(biases.values()), None))
        elif weight.dim() == STACK and (way := getattr(holders[0][0], EXPERTS, None)) is not None:
            yield Found(weight, holders, Role.EXPERTS, way, None)


def role_of(weight: nn.Parameter, head: Any, multiplies: bool, routes: bool) -> Role:
    if weight is head:
        return Role.HEAD
    if not multiplies:
        return Role.EMBEDDING
    return Role.SMALL if routes or min(weight.shape) < FEW else Role.LAYER


def ends(model: Any) -> Sequence[Any]:
    """The layer that makes the logits and the one that looks up ids; None for one that is not to be found."""
    try:
        return model.get_output_embeddings(), model.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        return None, None


def held(model: nn.Module) -> Iterator[tuple[nn.Parameter, tuple[Holder, ...]]]:
    """Each parameter with all who hold it."""
    holders: dict[int, list[Holder]] = {}
    for module in model.modules():
        for name, weight in module.named_parameters(recurse=False):
            holders.setdefault(id(weight), []).append((module, name))
    for found in holders.values():
        module, name = found[0]
        yield getattr(module, name), tuple(found)


def plain(weight: nn.Parameter, device: str) -> bool:
    """Whether it is of numbers that the kernels take, whole, and torch's own kind of tensor."""
    return type(weight.data) is Tensor and weight.dtype in DTYPES and weight.device.type == device


def added(module: nn.Module) -> Tensor | None:
    """The bias that torch adds as it multiplies; code of others may add it by itself."""
    return getattr(module, "bias", None) if type(module) in (nn.Linear, Conv1D) else None
