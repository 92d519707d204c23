"""A small Llama-like model twice: as plain torch operations, and as structs of the C library."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from inference.model.paged.q8_0 import dequantize, head_bytes, quantize
from inference.native.library import library
from inference.native.structs import Activation, Layer, Matrix, Model, NativeDtype, Step

ACTIVATIONS = {
    Activation.SILU: functional.silu,
    Activation.GELU_TANH: lambda x: functional.gelu(x, approximate="tanh"),
    Activation.GELU: functional.gelu,
}
DTYPES = {NativeDtype.F32: torch.float32, NativeDtype.BF16: torch.bfloat16}
MATRICES = ("query", "key", "value", "output", "gate", "up", "down")


@dataclass(frozen=True, slots=True)
class LlamaShape:
    hidden: int = 64
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 32
    rotary: int = 32
    inner: int = 96
    vocab: int = 70
    windows: tuple[int, ...] = (0, 0)  # of each layer
    dtype: NativeDtype = NativeDtype.F32
    kind: NativeDtype = NativeDtype.F32  # of the layers' matrices
    head_kind: NativeDtype = NativeDtype.F32
    activation: Activation = Activation.SILU
    biases: bool = False
    head_norms: bool = False
    after_norms: bool = False
    before_norms: bool = True
    attn_logit_softcap: float = 0
    final_logit_softcap: float = 0
    embedding_scale: float = 1
    residual_scale: float = 1
    page: int = 16
    threads: int = 2
    kv_in_blocks: bool = False  # keys and values in 8 bits

    def sizes(self) -> dict[str, tuple[int, int]]:
        queries, keys = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        into = {"query": queries, "key": keys, "value": keys, "gate": self.inner, "up": self.inner}
        back = {"output": queries, "down": self.inner}
        return {n: (o, self.hidden) for n, o in into.items()} | {n: (self.hidden, i) for n, i in back.items()}


@dataclass(slots=True)
class Weights:
    """One layer: matrices (outputs, inputs) with the values that are computed with, biases, norms."""

    matrices: dict[str, Tensor]
    biases: dict[str, Tensor]
    norms: dict[str, Tensor]


@dataclass
class Llama:
    """Weights, their structs, and the pages that tokens are written to.

    The matrices of the plain model are read back from the library's packed ones.
    """

    shape: LlamaShape
    pages: int = 32
    seed: int = 0
    pools: list[dict[str, Tensor]] = field(default_factory=list)  # keys and values of each layer
    buffers: list[Any] = field(default_factory=list)  # keeps alive what the structs point to

    def __post_init__(self) -> None:
        self.random = torch.Generator().manual_seed(self.seed)
        shape = self.shape
        self.angles = torch.outer(
            torch.arange(self.pages * shape.page).float(),
            10000 ** -(torch.arange(0, shape.rotary, 2).float() / max(shape.rotary, 1)),
        )
        self.embedding, embedding = self.matrix(shape.dtype, shape.vocab, shape.hidden)
        self.lm_head, lm_head = self.matrix(shape.head_kind, shape.vocab, shape.hidden)
        self.final_norm = self.random_tensor(shape.hidden) / 8 + 1
        self.layers, structs = zip(*(self.layer(window) for window in shape.windows), strict=True)
        self.model = Model(
            layers=len(structs),
            **{
                name: getattr(shape, name)
                for name in ("hidden", "num_heads", "num_kv_heads", "head_dim", "rotary")
            },
            **{name: getattr(shape, name) for name in ("activation", "dtype", "page", "threads")},
            **{name: getattr(shape, name) for name in ("attn_logit_softcap", "final_logit_softcap")},
            **{name: getattr(shape, name) for name in ("embedding_scale", "residual_scale")},
            kv_dtype=NativeDtype.Q8_0 if shape.kv_in_blocks else shape.dtype,
            epsilon=1e-5,
            scale=shape.head_dim**-0.5,
            embedding=embedding,
            lm_head=lm_head,
            final_norm=self.address(self.final_norm),
            layer=self.keep_alive((Layer * len(structs))(*structs)),
        )

    def random_tensor(self, *size: int) -> Tensor:
        return torch.randn(*size, generator=self.random)

    def keep_alive(self, value: Any) -> Any:
        self.buffers.append(value)
        return value

    def address(self, tensor: Tensor) -> int:
        return int(self.keep_alive(tensor).data_ptr())

    def matrix(
        self, kind: NativeDtype, outputs: int, inputs: int, bias: Tensor | None = None
    ) -> tuple[Tensor, Matrix]:
        """Random weights: as they are read back from the packed matrix, and the packed matrix."""
        native, weight = library(), self.random_tensor(outputs, inputs) / inputs**0.5
        values = torch.zeros(native.matrix_bytes(kind, outputs, inputs) + 64, dtype=torch.uint8)
        scales = torch.zeros(native.matrix_scale_bytes(kind, outputs, inputs) + 64, dtype=torch.uint8)
        padded = -(-inputs // 32) * 32
        struct = Matrix(kind, outputs, inputs, padded, self.aligned(values), self.aligned(scales))
        struct.bias = None if bias is None else self.address(bias)
        native.matrix_pack(struct, weight.data_ptr(), NativeDtype.F32, inputs, 0, outputs, None, 1)
        for row in range(outputs):
            native.matrix_row(struct, row, weight[row].data_ptr())
        return weight, struct

    def aligned(self, tensor: Tensor) -> int:
        return self.address(tensor[-tensor.data_ptr() % 64 :])

    def layer(self, window: int) -> tuple[Weights, Layer]:
        shape = self.shape
        biased = MATRICES if shape.biases else ()
        biases = {name: self.random_tensor(shape.sizes()[name][0]) / 4 for name in biased}
        both = {n: self.matrix(shape.kind, *size, biases.get(n)) for n, size in shape.sizes().items()}
        named = {
            "before_attention": shape.before_norms,
            "before_mlp": shape.before_norms,
            "after_attention": shape.after_norms,
            "after_mlp": shape.after_norms,
        }
        norms = {name: self.random_tensor(shape.hidden) / 8 + 1 for name, enabled in named.items() if enabled}
        if shape.head_norms:
            norms |= {name: self.random_tensor(shape.head_dim) / 8 + 1 for name in ("query_norm", "key_norm")}
        width = head_bytes(shape.head_dim) if shape.kv_in_blocks else shape.head_dim
        size = (self.pages + 1, shape.page, shape.num_kv_heads, width)
        kv_dtype = torch.uint8 if shape.kv_in_blocks else DTYPES[shape.dtype]
        pools = {n: torch.zeros(size, dtype=kv_dtype) for n in ("keys", "values")}
        self.pools.append(pools)
        tables = {"cos": self.angles.cos(), "sin": self.angles.sin()} if shape.rotary else {}
        addresses = {name: self.address(tensor) for name, tensor in (norms | tables | pools).items()}
        struct = Layer(window=window, **{n: matrix for n, (_, matrix) in both.items()}, **addresses)
        return Weights({n: weight for n, (weight, _) in both.items()}, biases, norms), struct

    def step(
        self,
        rows: Sequence[tuple[Sequence[int], int, Sequence[int]]],
        logits_indices: Sequence[int] | None = None,
        hidden: Tensor | None = None,
    ) -> Tensor:
        """Logits (W, V) of the tokens at `logits_indices`, or of all. A row: new ids, number of computed
        tokens, pages. Stores the hidden states of all tokens in `hidden` (T, d).
        """
        ids = [i for new, _, _ in rows for i in new]
        places = [(cached + i, pages) for new, cached, pages in rows for i in range(len(new))]
        size, bounds, page_table = self.shape.page, [0], [0]
        for new, _, pages in rows:
            bounds.append(bounds[-1] + len(new))
            page_table.append(page_table[-1] + len(pages))
        arrays = {
            "ids": ids,
            "positions": [position for position, _ in places],
            "slot_mapping": [pages[at // size] * size + at % size for at, pages in places],
            "query_start_loc": bounds,
            "seq_lens": [cached + len(new) for new, cached, _ in rows],
            "page_table": page_table[:-1],
            "pages": [page for _, _, pages in rows for page in pages],
            "logits_indices": range(len(ids)) if logits_indices is None else logits_indices,
        }
        arrays["output_indices"] = arrays["logits_indices"] if hidden is None else range(len(ids))
        tensors = {name: torch.tensor(list(values), dtype=torch.int64) for name, values in arrays.items()}
        indices = tensors.pop("logits_indices")
        num_logits, num_outputs = len(indices), len(tensors["output_indices"])
        logits = torch.full((num_logits, self.shape.vocab), torch.nan, dtype=DTYPES[self.shape.dtype])
        step = Step(len(ids), len(rows), num_logits, num_outputs, logits=logits.data_ptr())
        if hidden is not None:
            tensors["hidden"] = hidden
            tensors["logits_rows"] = torch.full((len(ids),), -1).scatter(0, indices, torch.arange(num_logits))
        for name, tensor in tensors.items():
            setattr(step, name, tensor.data_ptr())
        self.run(step)
        return logits

    def run(self, step: Step) -> None:
        """Runs the step in memory filled with NaN bytes, of exactly the requested size."""
        bytes_needed = library().step_bytes(self.model, step)
        memory = torch.full((bytes_needed + 128,), 0xFF, dtype=torch.uint8)
        start = -memory.data_ptr() % 64
        step.workspace = memory.data_ptr() + start
        library().step_run(ctypes.byref(self.model), ctypes.byref(step))
        assert (memory[:start] == 0xFF).all() and (memory[start + bytes_needed :] == 0xFF).all()

    def plain(self, ids: Sequence[int]) -> Tensor:
        """Logits (T, V) of a row, computed from its start in float64."""
        shape = self.shape
        x = self.embedding[list(ids)].double() * shape.embedding_scale
        for weights, window in zip(self.layers, shape.windows, strict=True):
            n = self.norm(x, weights.norms.get("before_attention"))
            mixed = linear(weights, "output", self.attend(weights, n, window))
            x = x + self.norm(mixed, weights.norms.get("after_attention")) * shape.residual_scale
            n = self.norm(x, weights.norms.get("before_mlp"))
            gated = ACTIVATIONS[shape.activation](linear(weights, "gate", n)) * linear(weights, "up", n)
            down = linear(weights, "down", gated)
            x = x + self.norm(down, weights.norms.get("after_mlp")) * shape.residual_scale
        return capped(self.norm(x, self.final_norm) @ self.lm_head.double().T, shape.final_logit_softcap)

    def norm(self, x: Tensor, weight: Tensor | None) -> Tensor:
        if weight is None:
            return x
        return x / (x.square().mean(-1, keepdim=True) + self.model.epsilon).sqrt() * weight.double()

    def attend(self, weights: Weights, n: Tensor, window: int) -> Tensor:
        shape, tokens = self.shape, len(n)
        query = linear(weights, "query", n).view(tokens, shape.num_heads, shape.head_dim)
        key = linear(weights, "key", n).view(tokens, shape.num_kv_heads, shape.head_dim)
        value = linear(weights, "value", n).view(tokens, shape.num_kv_heads, shape.head_dim)
        query = self.apply_rope(self.norm(query, weights.norms.get("query_norm")))
        key = self.as_cached(self.apply_rope(self.norm(key, weights.norms.get("key_norm"))))
        value = self.as_cached(value)
        shared = shape.num_heads // shape.num_kv_heads
        key, value = key.repeat_interleave(shared, 1), value.repeat_interleave(shared, 1)
        scores = capped(torch.einsum("qhd,khd->hqk", query, key) * self.model.scale, shape.attn_logit_softcap)
        behind = torch.arange(tokens)[:, None] - torch.arange(tokens)
        hidden = (behind < 0) | ((behind >= window) if window else False)
        weighed = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        return torch.einsum("hqk,khd->qhd", weighed, value).flatten(1)

    def as_cached(self, states: Tensor) -> Tensor:
        """Keys or values as attention reads them back from 8 bits."""
        if not self.shape.kv_in_blocks:
            return states
        return dequantize(quantize(states), self.shape.head_dim, DTYPES[self.shape.dtype]).double()

    def apply_rope(self, x: Tensor) -> Tensor:
        half = self.shape.rotary // 2
        angles = self.angles[: len(x), None].double()
        cos, sin = angles.cos(), angles.sin()
        a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), -1)


def linear(weights: Weights, name: str, x: Tensor) -> Tensor:
    bias = weights.biases.get(name)
    return functional.linear(x, weights.matrices[name].double(), None if bias is None else bias.double())


def capped(x: Tensor, cap: float) -> Tensor:
    return cap * (x / cap).tanh() if cap else x
