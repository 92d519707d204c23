"""A native model of random weights, to time the steps of a shape without the weights of a real one.

Values do not affect the time of a step, so one pattern fills all of the memory.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from inference.native.library import library
from inference.native.packed_matrix import ALIGNED, GROUP, PANEL, alloc
from inference.native.prefault import round_up
from inference.native.structs import DELTA_PLACES, Layer, Matrix, Model, NativeDtype, Step

PAGE = 16
KV_BLOCK_BYTES = GROUP + 2  # see c/kv_block.h
PATTERN_BYTES = 1 << 20
# As bytes of any number format they are ordinary numbers: no zeros, and none too small to be normal.
PATTERN_VALUES = (0x3C, 0xBC)

LayerDtypes = Mapping[str, NativeDtype]  # of each matrix of a layer, by its field of Layer


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """The shape of a Llama-like decoder.

    inner        width of the MLP
    layers       the dtypes of each layer's matrices
    head         dtype of the output layer
    dtype        of activations, F32 or BF16, and of keys and values
    has_int8_kv  keys and values have 8 bits instead
    has_biases   queries, keys and values have biases
    """

    hidden: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    inner: int
    vocab: int
    layers: Sequence[LayerDtypes]
    head: NativeDtype
    dtype: NativeDtype = NativeDtype.BF16
    has_int8_kv: bool = False
    has_biases: bool = False

    @property
    def head_bytes(self) -> int:
        """Bytes of a head in the KV cache."""
        if self.has_int8_kv:
            return round_up(self.head_dim, GROUP) // GROUP * KV_BLOCK_BYTES
        return self.head_dim * (2 if self.dtype is NativeDtype.BF16 else 4)

    @property
    def matrices(self) -> dict[str, tuple[int, int]]:
        """(outputs, inputs) of a layer's matrices, by their fields of Layer."""
        queries, keys = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        shapes = {"query": (queries, self.hidden), "key": (keys, self.hidden), "value": (keys, self.hidden)}
        shapes |= {"output": (self.hidden, queries), "gate": (self.inner, self.hidden)}
        return shapes | {"up": (self.inner, self.hidden), "down": (self.hidden, self.inner)}

    @property
    def layer_values(self) -> int:
        """Weights of a layer: the multiply-adds of one token in it."""
        return sum(map(prod, self.matrices.values()))


def same_dtype(dtype: NativeDtype) -> LayerDtypes:
    """A layer whose matrices all have one dtype."""
    return dict.fromkeys(DELTA_PLACES, dtype)


class SampleModel:
    """A native Model of the shape, and the memory that its structs point to. Raises NativeUnavailable.

    num_tokens    tokens of KV cache
    weight_bytes  bytes of all matrices
    """

    def __init__(self, shape: DecoderShape, num_tokens: int, threads: int) -> None:
        self.shape, self.keep_alive = shape, list[Tensor]()
        self.num_pages = round_up(num_tokens, PAGE) // PAGE
        self.weight_bytes = 0
        self.pattern = torch.tensor(PATTERN_VALUES, dtype=torch.uint8)[torch.randint(2, (PATTERN_BYTES,))]
        ones = self.address(torch.ones(shape.hidden))
        angles = torch.outer(torch.arange(num_tokens + PAGE).float(), torch.rand(shape.head_dim // 2))
        shared = {"cos": self.address(angles.cos()), "sin": self.address(angles.sin())}
        shared |= {"before_attention": ones, "before_mlp": ones}
        layers = (Layer * len(shape.layers))(*(self.layer(dtypes, shared) for dtypes in shape.layers))
        lm_head = self.matrix(shape.head, shape.vocab, shape.hidden)
        self.model = Model(
            layers=len(layers),
            hidden=shape.hidden,
            num_heads=shape.num_heads,
            num_kv_heads=shape.num_kv_heads,
            head_dim=shape.head_dim,
            rotary=shape.head_dim // 2 * 2,
            dtype=shape.dtype,
            kv_dtype=NativeDtype.Q8_0 if shape.has_int8_kv else shape.dtype,
            page=PAGE,
            threads=threads,
            epsilon=1e-6,
            scale=shape.head_dim**-0.5,
            embedding_scale=1,
            residual_scale=1,
            embedding=lm_head,
            lm_head=lm_head,
            final_norm=ones,
            layer=layers,
        )

    def address(self, tensor: Tensor) -> int:
        self.keep_alive.append(tensor)
        return tensor.data_ptr()

    def allocate(self, size: int) -> int:
        """The address of `size` bytes of the pattern, in memory like that of real weights (huge pages)."""
        memory = alloc(round_up(size, ALIGNED))
        count, rest = divmod(len(memory), PATTERN_BYTES)
        memory[: count * PATTERN_BYTES].view(count, PATTERN_BYTES).copy_(self.pattern)
        memory[len(memory) - rest :] = self.pattern[:rest]
        return self.address(memory)

    def matrix(self, dtype: NativeDtype, outputs: int, inputs: int, has_bias: bool = False) -> Matrix:
        size = library().matrix_bytes(dtype, outputs, inputs)
        scales = library().matrix_scale_bytes(dtype, outputs, inputs)
        self.weight_bytes += size + scales
        return Matrix(
            dtype,
            outputs,
            inputs,
            round_up(inputs, GROUP),
            self.allocate(size),
            self.allocate(scales) if scales else None,
            self.address(torch.zeros(outputs)) if has_bias else None,
        )

    def layer(self, dtypes: LayerDtypes, shared: Mapping[str, int]) -> Layer:
        shape = self.shape
        biased = ("query", "key", "value") if shape.has_biases else ()
        matrices = {
            name: self.matrix(dtypes[name], *size, name in biased) for name, size in shape.matrices.items()
        }
        pool_bytes = (self.num_pages + 1) * PAGE * shape.num_kv_heads * shape.head_bytes
        keys, values = (self.allocate(pool_bytes) for _ in range(2))
        return Layer(**matrices, **shared, keys=keys, values=values)

    def step(self, tokens: Sequence[int], num_computed: int) -> Callable[[], None]:
        """A function that runs a step with the logits of the last token of each row.

        tokens: new tokens of each row. num_computed: tokens that each row already has in the KV cache.
        """
        ends = torch.tensor(tokens).cumsum(0)
        outputs = {"output_indices": ends - 1, "logits": torch.empty(len(tokens), self.shape.vocab)}
        return self.bound_step(self.model, tokens, num_computed, outputs)

    def layers_step(
        self, num_tokens: int, num_computed: int, layers: range, vocab: int = PANEL
    ) -> Callable[[], None]:
        """A function that runs consecutive layers for tokens of one row, and `vocab` outputs of the head.

        Every layer computes all tokens: the last one of a whole step computes those with logits only. Without
        layers, the head gets arbitrary values.
        """
        model = Model.from_buffer_copy(self.model)
        model.layer = ctypes.cast(ctypes.byref(self.model.layer[layers.start]), ctypes.POINTER(Layer))
        model.layers, model.lm_head.outputs = len(layers), vocab
        rows = torch.full((num_tokens,), -1)
        rows[-1] = 0
        outputs = {"output_indices": torch.arange(num_tokens), "logits_rows": rows}
        return self.bound_step(
            model, (num_tokens,), num_computed, outputs | {"logits": torch.empty(1, vocab)}
        )

    def bound_step(
        self, model: Model, tokens: Sequence[int], num_computed: int, outputs: Mapping[str, Tensor]
    ) -> Callable[[], None]:
        inputs = self.step_inputs(tokens, num_computed)
        num_outputs = len(outputs["output_indices"])
        step = Step(sum(tokens), len(tokens), num_logits=len(outputs["logits"]), num_outputs=num_outputs)
        for name, tensor in {**inputs, **outputs}.items():
            setattr(step, name, self.address(tensor))
        step.workspace = self.allocate(library().step_bytes(model, step))
        return lambda: library().step_run(ctypes.byref(model), ctypes.byref(step))

    def step_inputs(self, tokens: Sequence[int], num_computed: int) -> dict[str, Tensor]:
        pages_per_row = -(-(num_computed + max(tokens)) // PAGE)
        places = torch.randperm(self.num_pages)
        pages = torch.cat([places.roll(-row * pages_per_row)[:pages_per_row] for row in range(len(tokens))])
        positions = torch.cat([torch.arange(num_computed, num_computed + count) for count in tokens])
        row = torch.repeat_interleave(torch.arange(len(tokens)), torch.tensor(tokens))
        page_table = torch.arange(len(tokens)) * pages_per_row
        return {
            "ids": torch.randint(self.shape.vocab, (sum(tokens),)),
            "positions": positions,
            "slot_mapping": pages[page_table[row] + positions // PAGE] * PAGE + positions % PAGE,
            "query_start_loc": torch.cat((torch.tensor([0]), torch.tensor(tokens).cumsum(0))),
            "seq_lens": num_computed + torch.tensor(tokens),
            "page_table": page_table,
            "pages": pages,
        }
