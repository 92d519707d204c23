"""What an adapter changes in a linear layer: a ModuleDelta turns the layer's outputs into the adapter's.

Knows tensors; neither modules nor which tokens have the adapter.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

MAX_SMALL_TOKENS = 32


class ModuleDelta(Protocol):
    """nbytes: of its tensors."""

    @property
    def nbytes(self) -> int: ...

    def apply(self, input: Tensor, output: Tensor) -> Tensor:
        """The adapter's outputs (N, out) for N tokens.

        input: (N, in), or token ids (N,). output: the module's own outputs, which may be overwritten.
        """
        ...


class LoraDelta:
    """Adds (x Aᵀ) Bᵀ and a bias.

    a     (r, in)
    b     (out, r), with the scale folded in
    bias  (out,), with the scale folded in; None: no bias
    """

    def __init__(self, a: Tensor, b: Tensor, bias: Tensor | None = None) -> None:
        self.a_t, self.b_t, self.bias = a.T, b.T, bias

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in (self.a_t, self.b_t, self.bias) if each is not None)

    def apply(self, input: Tensor, output: Tensor) -> Tensor:
        if is_small(input):
            low_rank = self.project(input.float(), self.a_t.float())
            output = output.copy_(torch.addmm(output.float(), low_rank, self.b_t.float()))
        else:
            output = output.addmm_(self.project(input, self.a_t), self.b_t)
        return output if self.bias is None else output.add_(self.bias)

    def project(self, input: Tensor, a_t: Tensor) -> Tensor:
        """The low-rank outputs (N, r)."""
        return input @ a_t


def is_small(input: Tensor) -> bool:
    """Whether torch computes so few tokens faster in float32, with conversions, than in their dtype."""
    return input.device.type == "cpu" and input.dtype != torch.float32 and len(input) <= MAX_SMALL_TOKENS


class AffineDelta:
    """Turns y into c ∘ y + d. factor c, shift d: (out,), None: 1 and 0.

    The difference of two biases is such a change. DoRA (https://arxiv.org/abs/2402.09353, eq. 5) is one, and
    then a LoraDelta: c ∘ (y - b + Δ) + b = c ∘ y + (1 - c) ∘ b + c ∘ Δ.
    """

    def __init__(self, factor: Tensor | None, shift: Tensor | None) -> None:
        self.factor, self.shift = factor, shift

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in (self.factor, self.shift) if each is not None)

    def apply(self, input: Tensor, output: Tensor) -> Tensor:
        if self.factor is not None:
            output = output.mul_(self.factor)
        return output if self.shift is None else output.add_(self.shift)


class DeltaChain:
    """Several changes of one module, one after the other."""

    def __init__(self, deltas: Sequence[ModuleDelta]) -> None:
        self.deltas = deltas

    @property
    def nbytes(self) -> int:
        return sum(delta.nbytes for delta in self.deltas)

    def apply(self, input: Tensor, output: Tensor) -> Tensor:
        for delta in self.deltas:
            output = delta.apply(input, output)
        return output
