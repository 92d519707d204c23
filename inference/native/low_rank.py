"""Low-rank products of a few rows on the CPU, computed by the C library: what an adapter adds to a layer.

Knows tensors and the library; knows no modules and no adapters.
"""

import torch
from torch import Tensor

from inference.native.library import available, library


def supports(x: Tensor, output: Tensor) -> bool:
    """Whether x (N, in) and output (N, out) are on the CPU, in bfloat16, with contiguous rows."""
    is_native = x.dtype is output.dtype is torch.bfloat16 and x.stride(1) == output.stride(1) == 1
    return is_native and x.is_cpu and available()


def project(x: Tensor, a: Tensor) -> Tensor:
    """x (N, in) @ a.T: (N, r), float32. x and a (r, in): bfloat16; a contiguous, x in contiguous rows."""
    low_rank = torch.empty(len(x), len(a), dtype=torch.float32)
    library().low_rank_project(
        x.data_ptr(), x.stride(0), a.data_ptr(), low_rank.data_ptr(), len(x), x.shape[1], len(a)
    )
    return low_rank


def add(low_rank: Tensor, b_t: Tensor, output: Tensor) -> Tensor:
    """output (N, out) += low_rank (N, r) @ b_t, in place.

    low_rank: contiguous float32. b_t (r, out): contiguous bfloat16. output: bfloat16, in contiguous rows.
    """
    library().low_rank_add(
        low_rank.data_ptr(), b_t.data_ptr(), output.data_ptr(), output.stride(0), *output.shape, len(b_t)
    )
    return output
