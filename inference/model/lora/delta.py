"""What an adapter changes in one module: a Delta turns the module's outputs into the adapter's.

Knows tensors; neither modules nor which tokens have the adapter.
"""

from typing import Protocol

from torch import Tensor


class Delta(Protocol):
    """nbytes: of its tensors."""

    @property
    def nbytes(self) -> int: ...

    def apply(self, input: Tensor, output: Tensor) -> Tensor:
        """The adapter's outputs (N, …, out) for N tokens.

        input: (N, …, in), or token ids (N,). output: the module's own outputs, which may be overwritten.
        """
        ...


class LoraDelta:
    """Adds (x Aᵀ) Bᵀ to the output of a linear layer.

    a  (r, in)
    b  (out, r), with the scale folded in
    """

    def __init__(self, a: Tensor, b: Tensor) -> None:
        self.a_t, self.b_t = a.T, b.T

    @property
    def nbytes(self) -> int:
        return self.a_t.nbytes + self.b_t.nbytes

    def apply(self, input: Tensor, output: Tensor) -> Tensor:
        return output.addmm_(self.project(input), self.b_t)

    def project(self, input: Tensor) -> Tensor:
        """The low-rank outputs (N, r)."""
        return input @ self.a_t
