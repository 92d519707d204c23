"""Runs a model on the meta device and computes only the first of several equal layers.

The other layers replay its output and its cost. Layers are equal if they consist of the same modules with the
same attributes and get equal inputs. Knows modules and tensor storages; what is measured is up to a
LayerAccounting.
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

from inference.model.placement.device_map import layer_stacks

PLAIN_TYPES = (bool, int, float, str, type(None), torch.dtype, torch.device)
MODULE_ATTRIBUTES = frozenset(vars(Module()))  # attributes of every module; weights are compared separately
INDEX_SUFFIXES = ("idx", "index", "_id", "number")  # endings of attributes that number the layer


class LayerAccounting(Protocol):
    """Measures a cost, such as memory, while a model computes."""

    def mark(self) -> Any:
        """The state of the measurement before a layer."""

    def delta(self, mark: Any, remaining_bytes: int) -> Any:
        """The cost of the layer since `mark`.

        remaining_bytes: size of the new storages in the layer's output. None if the layer left other bytes
        alive too: then it cannot represent its equals.
        """

    def replay(self, delta: Any) -> None:
        """Count the cost of an equal layer that is skipped."""


LayerMode = Callable[
    [Any, LayerAccounting], AbstractContextManager[Any]
]  # a context manager that decides which layers compute


@dataclass(frozen=True, slots=True)
class TensorRecipe:
    """How to rebuild a tensor of a layer's output.

    is_input       whether it is a view of an input in its dtype; otherwise the layer created its storage
    storage_index  index of that input, or of that new storage
    offset         in elements, like `size` and `stride`
    """

    is_input: bool
    storage_index: int
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def rebuild(self, inputs: Sequence[Any], storages: Sequence[Tensor]) -> Tensor:
        storage = (
            inputs[self.storage_index] if self.is_input else storages[self.storage_index].view(self.dtype)
        )
        return storage.as_strided(self.size, self.stride, self.offset)


@dataclass(frozen=True, slots=True)
class LayerOutput:
    """The output of a layer.

    leaves         plain values, and a TensorRecipe for each tensor
    storage_sizes  bytes of each storage that the layer created
    """

    leaves: tuple[Any, ...]
    tree_spec: TreeSpec
    storage_sizes: tuple[int, ...]

    def rebuild(self, inputs: Sequence[Any]) -> Any:
        """The output of an equal layer with the input leaves `inputs`."""
        storages = [torch.empty(size, dtype=torch.uint8, device="meta") for size in self.storage_sizes]
        leaves = [
            leaf.rebuild(inputs, storages) if isinstance(leaf, TensorRecipe) else leaf for leaf in self.leaves
        ]
        return tree_unflatten(leaves, self.tree_spec)


class RepeatedLayers:
    """Replaces the forward methods of a model's layers during one forward pass.

    num_skipped: layers that were replayed instead of computed.
    """

    def __init__(self, accounting: LayerAccounting) -> None:
        self.accounting = accounting
        self.num_skipped = 0
        self.known_outputs: dict[Hashable, tuple[LayerOutput, Any]] = {}
        self.computed: set[Callable[..., Any]] = set()

    def forward(self, kind: int, compute: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call `compute`, the layer's own forward, or replay the output of an equal layer.

        A layer that the model computes several times is not replayed: runners may refuse that.
        """
        inputs = tree_leaves((args, options))
        key = (kind, len(args), tuple(options), call_signature(inputs))
        is_repeated = compute in self.computed
        self.computed.add(compute)
        if (known := self.known_outputs.get(key)) and not is_repeated:
            output, delta = known
            self.num_skipped += 1
            self.accounting.replay(delta)
            return output.rebuild(inputs)
        mark = self.accounting.mark()
        result = compute(*args, **options)
        captured = capture_output(result, inputs)
        delta = self.accounting.delta(mark, sum(captured.storage_sizes) if captured else 0)
        if captured and delta is not None:
            self.known_outputs[key] = captured, delta
        return result


@contextmanager
def dedup_layers(model: Any, accounting: LayerAccounting) -> Iterator[RepeatedLayers]:
    """While active, the first of several equal layers computes, and the others replay it."""
    repeated_layers, kinds = RepeatedLayers(accounting), dict[Hashable, int]()
    layers = {model.get_submodule(name) for stack in layer_stacks(model) for name in stack}
    original_forwards = {layer: vars(layer).get("forward") for layer in layers}
    for layer in layers:
        kind = kinds.setdefault(layer_signature(layer), len(kinds))
        layer.forward = partial(repeated_layers.forward, kind, layer.forward)
    try:
        yield repeated_layers
    finally:
        for layer, forward in original_forwards.items():
            del layer.forward
            if forward:
                layer.forward = forward


@contextmanager
def compute_all_layers(model: Any, accounting: LayerAccounting) -> Iterator[None]:
    """The same interface with every layer computed, for models where replaying fails."""
    yield


def layer_signature(layer: Module) -> Hashable:
    """A key that is the same for layers with the same modules, weights and attributes."""
    return tuple(
        (name, type(module), weight_signature(module), settings_signature(module))
        for name, module in layer.named_modules()
    )


def weight_signature(module: Module) -> Hashable:
    tensors = chain(module.named_parameters(recurse=False), module.named_buffers(recurse=False))
    return tuple((name, tuple(weight.shape), weight.dtype) for name, weight in tensors)


def settings_signature(module: Module) -> Hashable:
    return tuple(
        (name, int if type(value) is int and name.endswith(INDEX_SUFFIXES) else value_signature(value))
        for name, value in vars(module).items()
        if name not in MODULE_ATTRIBUTES
    )


def value_signature(value: Any) -> Hashable:
    """A key that is the same for equal values; an object without value semantics equals only itself."""
    if isinstance(value, PLAIN_TYPES):
        return type(value), value
    if isinstance(value, (list, tuple)):
        return type(value), tuple(value_signature(each) for each in value)
    if isinstance(value, dict):
        return dict, value_signature(list(value.items()))
    if isinstance(value, partial):
        return partial, value_signature([value.func, value.args, value.keywords])
    return id(getattr(value, "__func__", value))


def call_signature(inputs: Sequence[Any]) -> Hashable:
    """A key that is the same for calls with inputs of equal shape, dtype and shared storages."""
    storages = [id(leaf.untyped_storage()) if isinstance(leaf, Tensor) else 0 for leaf in inputs]

    def signature(leaf: Any, storage: int) -> Hashable:
        if storage:
            return leaf.shape, leaf.stride(), leaf.dtype, storages.index(storage)
        return (type(leaf), leaf) if isinstance(leaf, Hashable) else id(leaf)

    return tuple(map(signature, inputs, storages))


def capture_output(result: Any, inputs: Sequence[Any]) -> LayerOutput | None:
    """Record a layer's output; None if it has leaves that cannot be rebuilt."""
    leaves, tree_spec = tree_flatten(result)
    input_storages = {
        id(leaf.untyped_storage()): number for number, leaf in enumerate(inputs) if is_meta(leaf)
    }
    new_storages: dict[int, tuple[int, int]] = {}
    recipes: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, PLAIN_TYPES):
            recipes.append(leaf)
            continue
        if not is_meta(leaf):
            return None
        storage = leaf.untyped_storage()
        is_input = id(storage) in input_storages
        if not is_input:
            new_storages.setdefault(id(storage), (len(new_storages), storage.nbytes()))
        number = input_storages[id(storage)] if is_input else new_storages[id(storage)][0]
        if is_input and inputs[number].dtype != leaf.dtype:
            return None
        recipes.append(
            TensorRecipe(
                is_input, number, leaf.dtype, tuple(leaf.shape), leaf.stride(), leaf.storage_offset()
            )
        )
    return LayerOutput(tuple(recipes), tree_spec, tuple(size for _, size in new_storages.values()))


def is_meta(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.is_meta
