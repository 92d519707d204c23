"""Finds the weights of a model that can be packed into native matrices, and the role of each.

Knows a model's modules; nothing of native matrices. The model may be on the meta device.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from inference.native.packed_matrix import NATIVE_DTYPES

Owner = tuple[nn.Module, str]  # a module, and the name of its parameter

LINEAR = (nn.Linear, Conv1D)
MATRIX, STACK = 2, 3  # dimensions of a weight, and of the weights of a layer's experts
# Names, in transformers' models, of the modules that route tokens to experts.
ROUTERS = frozenset({"gate", "router", "classifier", "shared_expert_gate"})
# An attribute of transformers' expert modules: whether their weights are (experts, inputs, outputs).
EXPERTS = "is_transposed"
# The same for those without the attribute, by the name of their class.
IS_TRANSPOSED = {"JetMoeParallelExperts": False, "Llama4TextExperts": True, "LongcatFlashExperts": False}
SMALL_DIM = 64  # a weight with fewer outputs or inputs is SMALL


class WeightRole(Enum):
    """What a weight is used for.

    LAYER      any other linear layer: most of the model
    SMALL      a router, or a linear layer with few outputs or inputs
    HEAD       computes the logits; may be tied to the embedding
    EMBEDDING  only looked up
    EXPERTS    the stacked weights of a layer's experts
    """

    LAYER = "layer"
    SMALL = "small"
    HEAD = "head"
    EMBEDDING = "embedding"
    EXPERTS = "experts"


@dataclass(frozen=True, slots=True)
class FoundWeight:
    """A weight of two dimensions, or a stack of them (experts, …).

    name           of the parameter, in the first of the modules
    owners         the modules that have the weight; several if it is tied
    is_transposed  the weight is (inputs, outputs), as in Conv1D
    bias           the bias that every module multiplying with the weight adds; None if none is added
    """

    name: str
    weight: nn.Parameter
    owners: tuple[Owner, ...]
    role: WeightRole
    is_transposed: bool
    bias: Tensor | None

    @property
    def outputs(self) -> int:
        return self.weight.shape[-1 if self.is_transposed else -2]

    @property
    def inputs(self) -> int:
        return self.weight.shape[-2 if self.is_transposed else -1]


def find_weights(model: Any, device: str = "cpu") -> Iterator[FoundWeight]:
    """Yield each weight that can be packed, on devices of this type, once and in the model's order."""
    head, table = (getattr(layer, "weight", None) for layer in head_and_embedding(model))
    names = {module: name for name, module in model.named_modules()}
    for weight, owners in owners_of(model):
        users = [module for module, _ in owners if isinstance(module, LINEAR)]
        is_transposed = {isinstance(module, Conv1D) for module in users}
        biases = {id(bias): bias for module in users if (bias := bias_of(module)) is not None}
        # Neither quantized nor sharded.
        is_plain = type(weight.data) is Tensor and weight.dtype in NATIVE_DTYPES
        if not is_plain or weight.device.type != device or len(is_transposed) > 1 or len(biases) > 1:
            continue
        if weight.dim() == MATRIX and (users or weight is table):
            is_router = any(names[module].rpartition(".")[2] in ROUTERS for module in users)
            role, bias = role_of(weight, head, bool(users), is_router), next(iter(biases.values()), None)
            yield FoundWeight(full_name(names, owners), weight, owners, role, True in is_transposed, bias)
        elif weight.dim() == STACK and (is_transposed_stack := is_transposed_in(owners[0][0])) is not None:
            name = full_name(names, owners)
            yield FoundWeight(name, weight, owners, WeightRole.EXPERTS, is_transposed_stack, None)


def is_transposed_in(module: nn.Module) -> bool | None:
    """Whether the weights of an experts module are (experts, inputs, outputs); None for another module."""
    return getattr(module, EXPERTS, IS_TRANSPOSED.get(type(module).__name__))


def full_name(names: Mapping[nn.Module, str], owners: Sequence[Owner]) -> str:
    module, name = owners[0]
    return f"{names[module]}.{name}"


def role_of(weight: nn.Parameter, head: Any, is_multiplied: bool, is_router: bool) -> WeightRole:
    if weight is head:
        return WeightRole.HEAD
    if not is_multiplied:
        return WeightRole.EMBEDDING
    return WeightRole.SMALL if is_router or min(weight.shape) < SMALL_DIM else WeightRole.LAYER


def head_and_embedding(model: Any) -> Sequence[Any]:
    """The output layer and the embedding; None for a layer that the model does not name."""
    try:
        return model.get_output_embeddings(), model.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        return None, None


def owners_of(model: nn.Module) -> Iterator[tuple[nn.Parameter, tuple[Owner, ...]]]:
    """Yield each parameter once, with all modules that have it."""
    owners: dict[int, list[Owner]] = {}
    for module in model.modules():
        for name, weight in module.named_parameters(recurse=False):
            owners.setdefault(id(weight), []).append((module, name))
    for each in owners.values():
        module, name = each[0]
        yield getattr(module, name), tuple(each)


def bias_of(module: nn.Module) -> Tensor | None:
    """The bias of an nn.Linear or Conv1D. Subclasses may add theirs differently: None."""
    return getattr(module, "bias", None) if type(module) in (nn.Linear, Conv1D) else None
