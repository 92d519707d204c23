"""A small Llama-like model twice: as the plain sums that it is, in torch, and as structs of the C library."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from inference.native.library import library
from inference.native.structs import Activation, Kind, Layer, Matrix, Model, Step

ACTIVATIONS = {
    Activation.SILU: functional.silu,
    Activation.GELU_TANH: lambda x: functional.gelu(x, approximate="tanh"),
    Activation.GELU: functional.gelu,
}
DTYPES = {Kind.F32: torch.float32, Kind.BF16: torch.bfloat16}
MATRICES = ("query", "key", "value", "output", "gate", "up", "down")


@dataclass(frozen=True, slots=True)
class Shape:
    hidden: int = 64
    heads: int = 4
    groups: int = 2
    head: int = 32
    rotary: int = 32
    inner: int = 96
    vocab: int = 70
    windows: tuple[int, ...] = (0, 0)  # of each layer
    form: Kind = Kind.F32
    kind: Kind = Kind.F32  # of the layers' matrices
    head_kind: Kind = Kind.F32
    activation: Activation = Activation.SILU
    biases: bool = False
    head_norms: bool = False
    after_norms: bool = False
    before_norms: bool = True
    score_cap: float = 0
    logit_cap: float = 0
    embedding_scale: float = 1
    residual_scale: float = 1
    page: int = 16
    threads: int = 2

    def sizes(self) -> dict[str, tuple[int, int]]:
        queries, keys = self.heads * self.head, self.groups * self.head
        into = {"query": queries, "key": keys, "value": keys, "gate": self.inner, "up": self.inner}
        back = {"output": queries, "down": self.inner}
        return {n: (o, self.hidden) for n, o in into.items()} | {n: (self.hidden, i) for n, i in back.items()}


@dataclass(slots=True)
class Weights:
    """Of one layer: matrices (outputs, inputs) as they are computed with, biases, norms."""

    matrices: dict[str, Tensor]
    biases: dict[str, Tensor]
    norms: dict[str, Tensor]


@dataclass
class Llama:
    """Weights, their structs, and pages that tokens were put into.

    The matrices of the plain model are what the library says that it has packed.
    """

    shape: Shape
    pages: int = 32
    seed: int = 0
    held: list[Any] = field(default_factory=list)  # whatever the structs point to

    def __post_init__(self) -> None:
        self.random = torch.Generator().manual_seed(self.seed)
        shape = self.shape
        self.angles = torch.outer(
            torch.arange(self.pages * shape.page).float(),
            10000 ** -(torch.arange(0, shape.rotary, 2).float() / max(shape.rotary, 1)),
        )
        self.embedding, embedding = self.matrix(shape.form, shape.vocab, shape.hidden)
        self.head, head = self.matrix(shape.head_kind, shape.vocab, shape.hidden)
        self.last_norm = self.drawn(shape.hidden) / 8 + 1
        self.layers, structs = zip(*(self.layer(window) for window in shape.windows), strict=True)
        self.model = Model(
            layers=len(structs),
            **{name: getattr(shape, name) for name in ("hidden", "heads", "groups", "head", "rotary")},
            **{name: getattr(shape, name) for name in ("activation", "form", "page", "threads")},
            **{name: getattr(shape, name) for name in ("score_cap", "logit_cap")},
            **{name: getattr(shape, name) for name in ("embedding_scale", "residual_scale")},
            epsilon=1e-5,
            scale=shape.head**-0.5,
            embedding=embedding,
            head_matrix=head,
            last_norm=self.address(self.last_norm),
            layer=self.kept((Layer * len(structs))(*structs)),
        )

    def drawn(self, *size: int) -> Tensor:
        return torch.randn(*size, generator=self.random)

    def kept(self, thing: Any) -> Any:
        self.held.append(thing)
        return thing

    def address(self, tensor: Tensor) -> int:
        return int(self.kept(tensor).data_ptr())

    def matrix(
        self, kind: Kind, outputs: int, inputs: int, bias: Tensor | None = None
    ) -> tuple[Tensor, Matrix]:
        """Random weights as they are computed with, and packed."""
        native, weight = library(), self.drawn(outputs, inputs) / inputs**0.5
        values = torch.zeros(native.matrix_bytes(kind, outputs, inputs) + 64, dtype=torch.uint8)
        scales = torch.zeros(native.matrix_scale_bytes(kind, outputs, inputs) + 64, dtype=torch.uint8)
        padded = -(-inputs // 32) * 32
        packed = Matrix(kind, outputs, inputs, padded, self.aligned(values), self.aligned(scales))
        packed.bias = None if bias is None else self.address(bias)
        native.matrix_pack(packed, weight.data_ptr(), Kind.F32, inputs, 0, outputs, 1)
        for row in range(outputs):
            native.matrix_row(packed, row, weight[row].data_ptr())
        return weight, packed

    def aligned(self, tensor: Tensor) -> int:
        return self.address(tensor[-tensor.data_ptr() % 64 :])

    def layer(self, window: int) -> tuple[Weights, Layer]:
        shape = self.shape
        biased = MATRICES if shape.biases else ()
        biases = {name: self.drawn(shape.sizes()[name][0]) / 4 for name in biased}
        both = {n: self.matrix(shape.kind, *size, biases.get(n)) for n, size in shape.sizes().items()}
        named = {
            "before_attention": shape.before_norms,
            "before_mlp": shape.before_norms,
            "after_attention": shape.after_norms,
            "after_mlp": shape.after_norms,
        }
        norms = {name: self.drawn(shape.hidden) / 8 + 1 for name, wanted in named.items() if wanted}
        if shape.head_norms:
            norms |= {name: self.drawn(shape.head) / 8 + 1 for name in ("query_norm", "key_norm")}
        size = (self.pages + 1, shape.page, shape.groups, shape.head)
        pools = {n: torch.zeros(size, dtype=DTYPES[shape.form]) for n in ("keys", "values")}
        tables = {"cos": self.angles.cos(), "sin": self.angles.sin()} if shape.rotary else {}
        addresses = {name: self.address(tensor) for name, tensor in (norms | tables | pools).items()}
        struct = Layer(window=window, **{n: packed for n, (_, packed) in both.items()}, **addresses)
        return Weights({n: weight for n, (weight, _) in both.items()}, biases, norms), struct

    def step(
        self,
        parts: Sequence[tuple[Sequence[int], int, Sequence[int]]],
        want: Sequence[int] | None = None,
    ) -> Tensor:
        """Logits (W, V) after tokens `want`, or all. A row: its new ids, how many it holds, its pages."""
        ids = [i for new, _, _ in parts for i in new]
        places = [(cached + i, pages) for new, cached, pages in parts for i in range(len(new))]
        size, bounds, tables = self.shape.page, [0], [0]
        for new, _, pages in parts:
            bounds.append(bounds[-1] + len(new))
            tables.append(tables[-1] + len(pages))
        arrays = {
            "ids": ids,
            "positions": [position for position, _ in places],
            "slots": [pages[at // size] * size + at % size for at, pages in places],
            "starts": bounds,
            "lengths": [cached + len(new) for new, cached, _ in parts],
            "tables": tables[:-1],
            "pages": [page for _, _, pages in parts for page in pages],
            "want": range(len(ids)) if want is None else want,
        }
        tensors = {name: torch.tensor(list(values), dtype=torch.int64) for name, values in arrays.items()}
        wanted = len(tensors["want"])
        logits = torch.full((wanted, self.shape.vocab), torch.nan, dtype=DTYPES[self.shape.form])
        step = Step(tokens=len(ids), rows=len(parts), wanted=wanted, logits=logits.data_ptr())
        for name, tensor in tensors.items():
            setattr(step, name, tensor.data_ptr())
        self.run(step)
        return logits

    def run(self, step: Step) -> None:
        """Compute it in memory full of what is no number, of exactly the size asked for."""
        bytes_needed = library().step_bytes(self.model, step)
        memory = torch.full((bytes_needed + 128,), 0xFF, dtype=torch.uint8)
        start = -memory.data_ptr() % 64
        step.memory = memory.data_ptr() + start
        library().step_run(ctypes.byref(self.model), ctypes.byref(step))
        assert (memory[:start] == 0xFF).all() and (memory[start + bytes_needed :] == 0xFF).all()

    def plain(self, ids: Sequence[int]) -> Tensor:
        """Logits (T, V) of a row from its start on, in float64."""
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
        return capped(self.norm(x, self.last_norm) @ self.head.double().T, shape.logit_cap)

    def norm(self, x: Tensor, weight: Tensor | None) -> Tensor:
        if weight is None:
            return x
        return x / (x.square().mean(-1, keepdim=True) + self.model.epsilon).sqrt() * weight.double()

    def attend(self, weights: Weights, n: Tensor, window: int) -> Tensor:
        shape, tokens = self.shape, len(n)
        query = linear(weights, "query", n).view(tokens, shape.heads, shape.head)
        key = linear(weights, "key", n).view(tokens, shape.groups, shape.head)
        value = linear(weights, "value", n).view(tokens, shape.groups, shape.head)
        query = self.turned(self.norm(query, weights.norms.get("query_norm")))
        key = self.turned(self.norm(key, weights.norms.get("key_norm")))
        shared = shape.heads // shape.groups
        key, value = key.repeat_interleave(shared, 1), value.repeat_interleave(shared, 1)
        scores = capped(torch.einsum("qhd,khd->hqk", query, key) * self.model.scale, shape.score_cap)
        behind = torch.arange(tokens)[:, None] - torch.arange(tokens)
        hidden = (behind < 0) | ((behind >= window) if window else False)
        weighed = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        return torch.einsum("hqk,khd->qhd", weighed, value).flatten(1)

    def turned(self, heads: Tensor) -> Tensor:
        half = self.shape.rotary // 2
        angles = self.angles[: len(heads), None].double()
        cos, sin = angles.cos(), angles.sin()
        a, b, rest = heads[..., :half], heads[..., half : 2 * half], heads[..., 2 * half :]
        return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), -1)


def linear(weights: Weights, name: str, x: Tensor) -> Tensor:
    bias = weights.biases.get(name)
    return functional.linear(x, weights.matrices[name].double(), None if bias is None else bias.double())


def capped(x: Tensor, cap: float) -> Tensor:
    return cap * (x / cap).tanh() if cap else x
