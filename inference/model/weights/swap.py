"""A model's weights are swapped for native ones, one at a time, and back.

At most one of them is there twice. Knows modules and matrices; whether it pays, and is right, is for others.
"""

import ctypes
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from torch import Tensor, nn

from inference.model.weights.found import Found, Holder, find
from inference.model.weights.kinds import kind_of
from inference.model.weights.mapped import forget
from inference.model.weights.weight import Matrix, NativeWeight
from inference.native.structs import Kind

Pack = Callable[[Tensor, Kind, Tensor | None], Matrix]  # of a weight (outputs, inputs), its kind, its bias


class Swapped(NamedTuple):
    """A native weight, and the modules that hold it."""

    weight: NativeWeight
    holders: tuple[Holder, ...]


def swap(model: Any, quantise: str, pack: Pack) -> list[Swapped]:
    """Have native matrices hold the model's weights, in the kinds that `quantise` asks for.

    The weights that the model had are given up.
    """
    todo = list(find(model))[::-1]
    done = []
    while todo:  # no list of those done keeps what they were
        found = todo.pop()
        done.append(swapped(found, kind_of(found, quantise), pack))
        del found
    trim()
    return done


def swapped(found: Found, kind: Kind, pack: Pack) -> Swapped:
    weight = found.weight.detach()
    matrix = pack(rows_of(found), kind, found.bias)
    native = NativeWeight(matrix, tuple(weight.shape), weight.dtype, found.bias, found.turned)
    put(native, found.holders)
    forget(weight)
    return Swapped(native, found.holders)


def rows_of(found: Found) -> Tensor:
    """(outputs, inputs)"""
    return found.weight.detach().T.contiguous() if found.turned else found.weight.detach()


def undo(swaps: Iterable[Swapped]) -> None:
    """Tensors again, of the values that the matrices compute with."""
    for weight, holders in swaps:
        put(weight.values().contiguous(), holders)
    trim()


def put(weight: Tensor, holders: Iterable[Holder]) -> None:
    parameter = nn.Parameter(weight, requires_grad=False)
    for module, name in holders:
        setattr(module, name, parameter)


def trim() -> None:
    """Give freed memory back to the system, where the C library does that when asked."""
    trims = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trims:
        trims(0)
