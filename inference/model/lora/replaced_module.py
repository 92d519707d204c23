"""A module with parameters of the adapter in place of the model's: peft's modules_to_save."""

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor, nn

from inference.model.merge_projections import MergedLinear


class ReplacedModule:
    """Computes the outputs by a copy of the module that has some other parameters.

    forward: of the module that ranks share (see parallel_layers.py); None: its class's own

    The module must compute each token by itself.
    """

    def __init__(
        self,
        module: nn.Module,
        parameters: Mapping[str, Tensor],
        forward: Callable[[Any, Tensor], Tensor] | None = None,
    ) -> None:
        self.module: Any = copy.copy(module)
        self.module.__dict__.pop("forward", None)  # it would compute with the module's own parameters
        if forward is not None:
            self.module.__dict__["forward"] = partial(forward, self.module)
        if isinstance(module, MergedLinear):
            self.module.__class__ = nn.Linear
        self.module._parameters = dict(module._parameters)
        for name, values in parameters.items():
            self.module._parameters[name] = nn.Parameter(values, requires_grad=False)
        self.parameters = parameters

    @property
    def nbytes(self) -> int:
        return sum(values.nbytes for values in self.parameters.values())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's outputs for the tokens of one adapter."""
        return self.module.forward(*args, **kwargs)


def can_replace(module: nn.Module) -> bool:
    """Whether the module computes each token by itself, as far as its class tells."""
    is_plain = isinstance(module, nn.Linear | nn.Embedding) or is_router(module)
    return is_plain or type(module).__name__.endswith(("Conv1D", "Norm"))


def is_router(module: nn.Module) -> bool:
    """Whether the module chooses the experts of each token, as far as its class tells."""
    return type(module).__name__.endswith("Router")
