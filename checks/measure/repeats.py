"""A model without values computes, and of its layers that are alike only the first: the others give what it
gave, and take what it took.

Layers are alike if they are made of the same modules, with the same settings, and are given the same. Knows
modules and tensors' storages; nothing of models, nor of what is counted meanwhile.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import Module
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten

from inference.model.split.spread import stacks

PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device)
ITS_OWN = frozenset(vars(Module()))  # what every module has; its weights are looked at apart
PLACES = ("idx", "index", "_id", "number")  # how settings end that say which of the layers it is


class Account(Protocol):
    """What is counted while a model computes."""

    def mark(self) -> Any:
        """Where it stands before a layer."""

    def took(self, mark: Any, left: int) -> Any:
        """What the layer has taken since. `left` bytes of what it made are in what it gave; None where others
        are left, too."""

    def again(self, took: Any) -> None:
        """The layer's like takes as much."""


Way = Callable[[Any, Account], AbstractContextManager[Any]]  # how a model's layers compute meanwhile


@dataclass(frozen=True, slots=True)
class Piece:
    """A tensor that a layer gave: of a storage that it was given, or of one that it made, by its number."""

    given: bool
    source: int
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def again(self, given: Sequence[Any], made: Sequence[Tensor]) -> Tensor:
        source = given[self.source] if self.given else made[self.source].view(self.dtype)
        return source.as_strided(self.size, self.stride, self.offset)


@dataclass(frozen=True, slots=True)
class Gift:
    """All that a layer gave. `made`: the bytes of each storage among it that it made."""

    leaves: tuple[Any, ...]
    form: TreeSpec
    made: tuple[int, ...]

    def again(self, given: Sequence[Any]) -> Any:
        """The same from a like layer, which was given the leaves `given`."""
        made = [torch.empty(size, dtype=torch.uint8, device="meta") for size in self.made]
        leaves = [leaf.again(given, made) if isinstance(leaf, Piece) else leaf for leaf in self.leaves]
        return tree_unflatten(leaves, self.form)


class Repeats:
    """Stands before the layers of a model while it computes, once. `count`: how many were not computed."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.count = 0
        self.known: dict[Hashable, tuple[Gift, Any]] = {}

    def forward(self, kind: int, compute: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """In the place of a layer's `compute`; layers of a kind are made alike."""
        given = tree_leaves((args, options))
        key = (kind, len(args), tuple(options), asked(given))
        if found := self.known.get(key):
            self.count += 1
            return self.again(*found, given)
        mark = self.account.mark()
        result = compute(*args, **options)
        gift = gift_of(result, given)
        took = self.account.took(mark, sum(gift.made) if gift else 0)
        if gift and took is not None:
            self.known[key] = gift, took
        return result

    def again(self, gift: Gift, took: Any, given: Sequence[Any]) -> Any:
        self.account.again(took)
        return gift.again(given)


@contextmanager
def repeating(model: Any, account: Account) -> Iterator[Repeats]:
    """Meanwhile those of the model's layers that are alike compute once, all together."""
    repeats, kinds = Repeats(account), dict[Hashable, int]()
    layers = {model.get_submodule(name) for stack in stacks(model) for name in stack}
    before = {layer: vars(layer).get("forward") for layer in layers}
    for layer in layers:
        kind = kinds.setdefault(likeness(layer), len(kinds))
        layer.forward = partial(repeats.forward, kind, layer.forward)
    try:
        yield repeats
    finally:
        for layer, forward in before.items():
            del layer.forward
            if forward:
                layer.forward = forward


@contextmanager
def computing(model: Any, account: Account) -> Iterator[None]:
    """The same with every layer computed: for models whose layers are not what they look like."""
    yield


def likeness(layer: Module) -> Hashable:
    """What layers that are made alike have in common."""
    return tuple((name, type(part), weights(part), settings(part)) for name, part in layer.named_modules())


def weights(part: Module) -> Hashable:
    held = chain(part.named_parameters(recurse=False), part.named_buffers(recurse=False))
    return tuple((name, tuple(weight.shape), weight.dtype) for name, weight in held)


def settings(part: Module) -> Hashable:
    return tuple(
        (name, int if type(value) is int and name.endswith(PLACES) else named(value))
        for name, value in vars(part).items()
        if name not in ITS_OWN
    )


def named(value: Any) -> Hashable:
    """What is the same for values that mean the same; of an object that is known by itself alone, itself."""
    if isinstance(value, PLAIN):
        return type(value), value
    if isinstance(value, (list, tuple)):
        return type(value), tuple(named(each) for each in value)
    if isinstance(value, dict):
        return dict, named(list(value.items()))
    if isinstance(value, partial):
        return partial, named([value.func, value.args, value.keywords])
    return id(getattr(value, "__func__", value))


def asked(given: Sequence[Any]) -> Hashable:
    """What calls have in common that are alike, by their leaves."""
    storages = [id(leaf.untyped_storage()) if isinstance(leaf, Tensor) else 0 for leaf in given]
    return tuple(
        (leaf.shape, leaf.stride(), leaf.dtype, storages.index(storage)) if storage else seen(leaf)
        for leaf, storage in zip(given, storages, strict=True)
    )


def seen(leaf: Any) -> Hashable:
    return (type(leaf), leaf) if isinstance(leaf, Hashable) else id(leaf)


def gift_of(result: Any, given: Sequence[Any]) -> Gift | None:
    """None for what cannot be made again."""
    leaves, form = tree_flatten(result)
    sources = {id(leaf.untyped_storage()): number for number, leaf in enumerate(given) if is_meta(leaf)}
    made: dict[int, tuple[int, int]] = {}
    pieces: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, PLAIN):
            pieces.append(leaf)
            continue
        if not is_meta(leaf):
            return None
        storage = leaf.untyped_storage()
        old = id(storage) in sources
        if not old:
            made.setdefault(id(storage), (len(made), storage.nbytes()))
        number = sources[id(storage)] if old else made[id(storage)][0]
        pieces.append(Piece(old, number, leaf.dtype, tuple(leaf.shape), leaf.stride(), leaf.storage_offset()))
    return Gift(tuple(pieces), form, tuple(size for _, size in made.values()))


def is_meta(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.is_meta
