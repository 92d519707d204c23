"""Stacked experts' weights with a low-rank pair for each expert: a layer's own code computes with them.

Knows transformers' loop over the experts, which indexes one weight after the other.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.model.lora.replaced_module import ReplacedModule
from inference.model.parallel_layers import to_plain_tensors
from inference.model.quantization.replace import ONE_BY_ONE

ONE_BY_ONE_SETTING = "_experts_implementation_internal"  # of a config
# Classes without this setting, which always compute one expert after the other.
ALWAYS_ONE_BY_ONE = frozenset({"JetMoeParallelExperts", "LongcatFlashExperts"})


def has_stacked_experts(module: nn.Module) -> bool:
    """Whether the module is one of transformers' that can compute its experts one by one."""
    is_set = hasattr(module, "is_transposed") and has_setting(module)
    return is_set or type(module).__name__ in ALWAYS_ONE_BY_ONE


def has_setting(module: nn.Module) -> bool:
    return hasattr(getattr(module, "config", None), ONE_BY_ONE_SETTING)


class AdaptedExperts(ReplacedModule):
    """Computes the outputs of a layer of experts by a copy of it in which parameters have pairs.

    pairs  by the names of the parameters
    """

    def __init__(self, module: nn.Module, pairs: Mapping[str, "ExpertStack"]) -> None:
        super().__init__(module, {})
        self.pairs = pairs
        if has_setting(module):
            self.module.config = copy.copy(module.config)
            setattr(self.module.config, ONE_BY_ONE_SETTING, ONE_BY_ONE)
        for name, stack in pairs.items():
            del self.module._parameters[name]
            self.module.__dict__[name] = stack
        to_plain_tensors(self.module)

    @property
    def nbytes(self) -> int:
        return sum(stack.a.nbytes + stack.b.nbytes for stack in self.pairs.values())


class ExpertStack:
    """A parameter (experts, …) with pairs: stack[i] is the weight of an expert.

    a  (experts, rank, in)
    b  (experts, out, rank), with the scale folded in
    """

    def __init__(self, weights: Tensor, a: Tensor, b: Tensor) -> None:
        self.weights, self.a, self.b = weights, a, b

    def __getitem__(self, index: Tensor) -> "ExpertWeight":
        return ExpertWeight(self.weights[index], self.a[index], self.b[index])


class ExpertWeight:
    """The weight of one expert and its pair, for products with it; other functions raise TypeError."""

    def __init__(self, weight: Tensor, a: Tensor, b: Tensor) -> None:
        self.weight, self.a, self.b = weight, a, b

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Tensor:
        if func not in PRODUCTS:
            raise TypeError(f"{func.__name__} of an expert's weight with a pair is not supported")
        return PRODUCTS[func](*args, **(kwargs or {}))


def linear(input: Tensor, weight: ExpertWeight, bias: Tensor | None = None) -> Tensor:
    output = functional.linear(input, weight.weight, bias)
    return output + (input @ weight.a.T) @ weight.b.T


def matmul(input: Tensor, weight: ExpertWeight) -> Tensor:
    return input @ weight.weight + (input @ weight.a.T) @ weight.b.T


PRODUCTS: Mapping[Any, Callable[..., Tensor]] = {
    functional.linear: linear,
    torch.matmul: matmul,
    Tensor.matmul: matmul,
    Tensor.__matmul__: matmul,
}
