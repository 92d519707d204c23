"""A weight that a native matrix holds, in the place of a model's own.

To torch, and so to a model's code, it is a tensor of the same shape, dtype and device, whatever module it is
a parameter of: what multiplies by it or looks it up is computed natively, anything else is given its values,
unpacked for that moment. Knows torch's functions; not which weights a model has.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only


class Matrix(Protocol):
    """A weight (outputs, inputs) as inference.native keeps it."""

    @property
    def nbytes(self) -> int: ...

    def linear(self, x: Tensor) -> Tensor:
        """x (…, inputs) of float32 or bfloat16 becomes (…, outputs) of the same, the matrix's bias added."""
        ...

    def rows(self, ids: Tensor) -> Tensor:
        """The rows of ids (…) as (…, inputs), float32."""
        ...

    def unpack(self, dtype: torch.dtype) -> Tensor:
        """(outputs, inputs) as they are computed with, rounded to the dtype."""
        ...


class Uses:
    """How often the values of a weight, or of a part of it, have been asked for, which is slow."""

    def __init__(self) -> None:
        self.count = 0


class Native(Tensor):
    """A tensor without values of its own. `uses` is its parts', too."""

    uses: Uses

    @property
    def unpacked(self) -> int:
        return self.uses.count

    def values(self) -> Tensor:
        """The weight as a tensor of its own."""
        raise NotImplementedError

    def detach(self) -> "Native":
        """Itself: it has no gradients. What makes it a parameter asks for this."""
        return self

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        rule = RULES.get(func)
        made = None if rule is None else rule(*args, **(kwargs or {}))
        if made is not None:
            return made
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        with torch.inference_mode(False):  # a part of the values must be what a part of a parameter is
            args, kwargs = tree_map_only(Native, lambda native: native.values(), (args, kwargs or {}))
            return func(*args, **kwargs)


class NativeWeight(Native):
    """matrix  what holds the values
    bias    the parameter whose values the matrix adds to its outputs; None if it adds none
    turned  the weight is the transpose of the matrix: (inputs, outputs)
    """

    matrix: Matrix
    bias: Tensor | None
    turned: bool

    @staticmethod
    def __new__(
        cls: type["NativeWeight"],
        matrix: Matrix,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        bias: Tensor | None,
        turned: bool,
    ) -> "NativeWeight":
        made: NativeWeight = Tensor._make_wrapper_subclass(cls, shape, dtype=dtype)
        made.matrix, made.bias, made.turned, made.uses = matrix, bias, turned, Uses()
        return made

    def values(self) -> Tensor:
        self.uses.count += 1
        values = self.matrix.unpack(self.dtype)
        return values.T if self.turned else values

    def transposed(self) -> "NativeWeight":
        """The same matrix, the other way."""
        made = NativeWeight(self.matrix, self.shape[::-1], self.dtype, self.bias, not self.turned)
        made.uses = self.uses
        return made


class NativeStack(Native):
    """Weights of one shape, (weights, …): the experts of a layer, of which a token takes a few."""

    members: list[NativeWeight]

    @staticmethod
    def __new__(cls: type["NativeStack"], members: list[NativeWeight]) -> "NativeStack":
        shape = (len(members), *members[0].shape)
        made: NativeStack = Tensor._make_wrapper_subclass(cls, shape, dtype=members[0].dtype)
        made.members, made.uses = members, Uses()
        for member in members:
            member.uses = made.uses
        return made

    def values(self) -> Tensor:
        return torch.stack([member.values() for member in self.members])


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    if not isinstance(weight, NativeWeight) or weight.turned:
        return None
    return product(input, weight, bias)


def addmm(bias: Tensor, input: Tensor, weight: Tensor, **scaled: Any) -> Tensor | None:
    """As transformers' Conv1D multiplies, whose weight is (inputs, outputs)."""
    if scaled or not isinstance(weight, NativeWeight) or not weight.turned:
        return None
    return product(input, weight, bias)


def matmul(input: Tensor, weight: Tensor) -> Tensor | None:
    if not isinstance(weight, NativeWeight) or not weight.turned:
        return None
    return product(input, weight, None)


def product(input: Tensor, weight: NativeWeight, bias: Tensor | None) -> Tensor | None:
    """What the matrix makes of the input; None where something else is asked for."""
    if bias is not weight.bias or input.dtype != weight.dtype:
        return None
    return weight.matrix.linear(input)


def transpose(weight: Tensor) -> Tensor | None:
    return weight.transposed() if isinstance(weight, NativeWeight) else None


def embedding(
    input: Tensor, weight: Tensor, *, max_norm: float | None = None, **training: Any
) -> Tensor | None:
    if max_norm is not None or not isinstance(weight, NativeWeight) or weight.turned:
        return None
    return weight.matrix.rows(input).to(weight.dtype)


def chosen(stack: Tensor, place: Any) -> Tensor | None:
    """One of a stack, by its number or a tensor that is one."""
    if not isinstance(stack, NativeStack):
        return None
    number = isinstance(place, int) or (isinstance(place, Tensor) and place.dtype == torch.int64)
    return stack.members[int(place)] if number and torch.as_tensor(place).dim() == 0 else None


class Plainly(TorchFunctionMode):
    """While it is entered, native weights give their values to all that is computed with them; a stack is not
    unpacked for one of it."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        made = chosen(*args) if func is Tensor.__getitem__ else None
        if made is not None:
            return made
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


# Each gives None where it cannot compute what is asked for.
RULES: Mapping[Any, Callable[..., Tensor | None]] = {
    functional.linear: linear,
    functional.embedding: embedding,
    torch.addmm: addmm,
    torch.matmul: matmul,
    Tensor.matmul: matmul,
    Tensor.__matmul__: matmul,
    Tensor.__getitem__: chosen,
    Tensor.T.__get__: transpose,  # type: ignore[attr-defined]
    Tensor.t: transpose,
}
