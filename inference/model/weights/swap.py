"""A model's weights are swapped for native ones, one at a time, and back.

At most one of them is there twice. Knows modules and matrices; whether it pays, and is right, is for others.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn

from inference.heap import give_back, returning
from inference.model.weights.found import Found, Holder, Role, find
from inference.model.weights.kinds import kind_of
from inference.model.weights.mapped import Span, forget, mapped_files
from inference.model.weights.weight import Matrix, Native, NativeStack, NativeWeight
from inference.native.structs import Kind

Pack = Callable[[Tensor, Kind, Tensor | None], Matrix]  # of a weight (outputs, inputs), its kind, its bias
# How transformers is to compute experts: only so is a native one taken out of their stack.
ONE_BY_ONE = "eager"


class Swapped(NamedTuple):
    """A native weight, and the modules that hold it."""

    weight: Native
    holders: tuple[Holder, ...]


def swap(model: Any, quantise: str, pack: Pack) -> list[Swapped]:
    """Have native matrices hold the model's weights, in the kinds that `quantise` asks for.

    The weights that the model had are given up.
    """
    todo = [(found, kind_of(found, quantise)) for found in find(model)][::-1]
    if any(found.role is Role.EXPERTS for found, _ in todo):
        model.set_experts_implementation(ONE_BY_ONE)
    files = mapped_files()  # as long as a weight is there, its file is where it was
    done: list[Swapped] = []
    with returning():
        while todo:  # no list of those to come keeps those that are done
            done.append(swapped(*todo.pop(), pack, files))
    give_back()
    return done


def swapped(found: Found, kind: Kind, pack: Pack, files: Sequence[Span]) -> Swapped:
    weight = found.weight.detach()
    native: Native
    if found.role is Role.EXPERTS:
        native = NativeStack([held(each, found, kind, pack) for each in weight])
    else:
        native = held(weight, found, kind, pack)
    put(native, found.holders)
    forget(weight, files)
    return Swapped(native, found.holders)


def held(weight: Tensor, found: Found, kind: Kind, pack: Pack) -> NativeWeight:
    matrix = pack(rows_of(weight, found.turned), kind, found.bias)
    return NativeWeight(matrix, tuple(weight.shape), weight.dtype, found.bias, found.turned)


def rows_of(weight: Tensor, turned: bool) -> Tensor:
    """(outputs, inputs)"""
    return weight.T if turned else weight


def undo(swaps: list[Swapped]) -> None:
    """Tensors again, of what the matrices compute with; one at a time, and the list is empty then."""
    with returning():
        while swaps:
            put_back(*swaps.pop())
    give_back()


def put_back(weight: Native, holders: Iterable[Holder]) -> None:
    put(weight.values().contiguous(), holders)


def put(weight: Tensor, holders: Iterable[Holder]) -> None:
    parameter = nn.Parameter(weight, requires_grad=False)
    for module, name in holders:
        setattr(module, name, parameter)
