"""An adapter as the structs of step.h: packed low-rank pairs for the matrices of the layers and the head.

Knows which matrix each module of a Llama-like model computes; native/c/step/delta.c has the arithmetic.
"""

from collections.abc import Iterator, Mapping, Sequence
from ctypes import Array, pointer
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from inference.model.fused.llama_model import HeadShape
from inference.model.fused.module_map import (
    DOWN,
    GATE,
    GATE_AND_UP,
    KEY,
    OUTPUT,
    QUERY,
    QUERY_KEY_VALUE,
    UP,
    VALUE,
    map_modules_on_cpu,
)
from inference.native.packed_matrix import ALIGNED, NATIVE_DTYPES, PANEL, PackedMatrix, address_of, alloc
from inference.native.structs import DELTA_PLACES, AdapterSpan, Delta, LayerDeltas

HEAD = "head"
# transformers' names of the modules → the matrices of step.h that they compute, in order.
ATTENTION_PLACES = {
    QUERY: ("query",),
    KEY: ("key",),
    VALUE: ("value",),
    QUERY_KEY_VALUE: ("query", "key", "value"),
    OUTPUT: ("output",),
}
MLP_PLACES = {GATE: ("gate",), UP: ("up",), GATE_AND_UP: ("gate", "up"), DOWN: ("down",)}


class DeltaPlace(NamedTuple):
    """Outputs [first, end) of a module are those of the matrix `name` of a layer, or of HEAD."""

    layer: int
    name: str
    first: int
    end: int


class DeltaTensors(NamedTuple):
    """y = factor ∘ y + shift + (x aᵀ) bᵀ, before the bias of the layer is added.

    a (r, in), b (out, r), factor and shift (out,); None: no change of this kind
    """

    a: Tensor | None = None
    b: Tensor | None = None
    factor: Tensor | None = None
    shift: Tensor | None = None


class NativeAdapter:
    """The deltas of an adapter, for native code. Owns the memory that the structs point into."""

    def __init__(self, num_layers: int, tensors: Mapping[DeltaPlace, DeltaTensors]) -> None:
        """Describe the adapter to native code.

        tensors: of each matrix that changes, in the order in which a step reads them.
        """
        self.layers = (LayerDeltas * num_layers)()
        self.head = Delta()
        self.max_rank = 0
        self.pairs = {place: PackedPair(each, place) for place, each in tensors.items() if each.a is not None}
        self.constants: dict[DeltaPlace, tuple[Tensor | None, Tensor | None]] = {}
        # One block of huge pages: a step reads the adapter in order, as it reads the model's weights.
        self.memory = [move_to_one_block(list(self.pairs.values()))]
        for place, each in tensors.items():
            self.add(place, each, self.pairs.get(place))

    @property
    def nbytes(self) -> int:
        return sum(values.nbytes for values in self.memory)

    def add(self, place: DeltaPlace, tensors: DeltaTensors, pair: "PackedPair | None") -> None:
        """Fill in the change of one matrix."""
        delta = Delta()
        if pair is not None:
            delta.a, delta.b = pair.a.struct, pair.b.data_ptr()
            self.max_rank = max(self.max_rank, pair.a.outputs)
        factor, shift = (self.floats(each, place) for each in (tensors.factor, tensors.shift))
        self.constants[place] = factor, shift
        delta.factor, delta.shift = address_of(factor), address_of(shift)
        if place.name == HEAD:
            self.head = delta
        else:
            self.layers[place.layer].delta[DELTA_PLACES.index(place.name)] = delta

    def floats(self, values: Tensor | None, place: DeltaPlace) -> Tensor | None:
        """The place's values as floats, up to a whole panel; None for None."""
        if values is None:
            return None
        floats = pad_outputs(values[place.first : place.end].float()).clone()
        self.memory.append(floats)
        return floats

    def unpack(self, place: DeltaPlace) -> DeltaTensors | None:
        """The change of the place's outputs, in float32; None: there is none."""
        if place not in self.constants:
            return None
        size, pair = place.end - place.first, self.pairs.get(place)
        factor, shift = (None if each is None else each[:size] for each in self.constants[place])
        if pair is None:
            return DeltaTensors(None, None, factor, shift)
        return DeltaTensors(pair.a.unpack(), pair.unpack_b()[:size], factor, shift)


class PackedPair:
    """A low-rank pair as in step.h. a: packed; b: (panels, rank, PANEL)."""

    def __init__(self, tensors: DeltaTensors, place: DeltaPlace) -> None:
        assert tensors.a is not None and tensors.b is not None
        self.a = PackedMatrix.pack(tensors.a, NATIVE_DTYPES[tensors.a.dtype])
        self.b = pad_outputs(tensors.b[place.first : place.end]).unflatten(0, (-1, PANEL)).mT.contiguous()
        self.b_dtype, self.b_shape = self.b.dtype, self.b.shape

    def unpack_b(self) -> Tensor:
        """b (outputs, rank) in float32, with the zeros of the last panel."""
        return self.b.view(self.b_dtype).view(self.b_shape).mT.flatten(0, 1).float()


def pad_outputs(values: Tensor) -> Tensor:
    """The values (outputs, …) with zeros up to a whole panel."""
    return torch.cat([values, values.new_zeros(-len(values) % PANEL, *values.shape[1:])])


def move_to_one_block(pairs: Sequence[PackedPair]) -> Tensor:
    """Move the values of the pairs into one block of memory, which is returned."""
    block, start = alloc(sum(aligned(pair.a.values) + aligned(pair.b) for pair in pairs)), 0
    for pair in pairs:
        values = block[start : start + pair.a.values.nbytes].copy_(pair.a.values)
        pair.a.values, pair.a.struct.values = values, values.data_ptr()
        start += aligned(values)
        pair.b = block[start : start + pair.b.nbytes].copy_(pair.b.flatten().view(torch.uint8))
        start += aligned(pair.b)
    return block


def aligned(values: Tensor) -> int:
    """The bytes of the values, up to the next aligned address."""
    return -(-values.nbytes // ALIGNED) * ALIGNED


def native_spans(
    adapters: Mapping[int, NativeAdapter],
    spans: Sequence[tuple[int, int, int]],
    logits_rows: Sequence[tuple[int, int]],
) -> "Array[AdapterSpan]":
    """The AdapterSpans of spans (number, first, end); logits_rows: the rows of the logits of each span."""
    native = (AdapterSpan * len(spans))()
    for place, ((number, first, end), rows) in enumerate(zip(spans, logits_rows, strict=True)):
        adapter = adapters[number]
        native[place] = AdapterSpan(first, end, *rows, adapter.layers, pointer(adapter.head))
    return native


def delta_places(model: PreTrainedModel, shape: HeadShape) -> dict[nn.Module, list[DeltaPlace]]:
    """The matrices that each module computes."""
    modules = map_modules_on_cpu(model)
    attention_sizes = [shape.num_heads * shape.head_dim, *[shape.num_kv_heads * shape.head_dim] * 2]
    places = {modules.output: list(divide_outputs(0, modules.output, (HEAD,), ()))}
    for index, layer in enumerate(modules.layers):
        for parent, matrices_of, sizes in (
            (layer.self_attn, ATTENTION_PLACES, attention_sizes),
            (layer.mlp, MLP_PLACES, ()),
        ):
            for name, matrices in matrices_of.items():
                if (module := getattr(parent, name, None)) is not None:
                    places[module] = list(divide_outputs(index, module, matrices, sizes))
    return places


def divide_outputs(
    layer: int, module: Any, matrices: Sequence[str], sizes: Sequence[int]
) -> Iterator[DeltaPlace]:
    """The outputs of each matrix: of several, sizes[i], or equally many each."""
    if len(matrices) == 1 or not sizes:
        sizes = [module.out_features // len(matrices)] * len(matrices)
    first = 0
    for name, size in zip(matrices, sizes, strict=True):
        yield DeltaPlace(layer, name, first, first + size)
        first += size
