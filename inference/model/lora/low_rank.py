"""The ways to compute the two products of a low-rank pair: the number of tokens and the dtype choose one.

Knows tensors; no modules and no adapters.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from inference.native import low_rank as native

MAX_SMALL_TOKENS = 32


class Products(NamedTuple):
    """The products for the inputs (N, in) of a layer and a pair a (r, in), b_t (r, out), both contiguous.

    project  (x, a): the low-rank outputs x aᵀ (N, r)
    add      (low_rank, b_t, output): the output (N, out), to which low_rank b_t is added in place
    """

    project: Callable[[Tensor, Tensor], Tensor]
    add: Callable[[Tensor, Tensor, Tensor], Tensor]


def products_for(x: Tensor, output: Tensor) -> Products:
    """Few tokens on a CPU have float32 sums: torch's products in other dtypes take longer to set up."""
    if not x.is_cpu or x.dtype == torch.float32 or len(x) > MAX_SMALL_TOKENS:
        return IN_DTYPE
    return NATIVE if native.supports(x, output) else IN_FLOAT32


def project(x: Tensor, a: Tensor) -> Tensor:
    return x @ a.T


def add(low_rank: Tensor, b_t: Tensor, output: Tensor) -> Tensor:
    return output.addmm_(low_rank, b_t)


def project_floats(x: Tensor, a: Tensor) -> Tensor:
    return x.float() @ a.float().T


def add_floats(low_rank: Tensor, b_t: Tensor, output: Tensor) -> Tensor:
    return output.copy_(output.float().addmm_(low_rank, b_t.float()))


IN_DTYPE = Products(project, add)
IN_FLOAT32 = Products(project_floats, add_floats)
NATIVE = Products(native.project, native.add)
