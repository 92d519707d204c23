"""What an adapter changes in a linear layer: a ModuleDelta turns the layer's outputs into the adapter's.

Knows tensors; neither modules nor which tokens have the adapter.
"""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from inference.model.lora.low_rank import Products, products_for


class ModuleDelta(Protocol):
    """The change of one layer.

    nbytes: of its tensors.
    """

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
        self.a, self.b_t, self.bias = a.contiguous(), b.T.contiguous(), bias

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in (self.a, self.b_t, self.bias) if each is not None)

    def apply(self, input: Tensor, output: Tensor) -> Tensor:
        products = products_for(input, output)
        output = products.add(self.project(products, input), self.b_t, output)
        return output if self.bias is None else output.add_(self.bias)

    def project(self, products: Products, input: Tensor) -> Tensor:
        """The low-rank outputs (N, r)."""
        return products.project(input, self.a)


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
