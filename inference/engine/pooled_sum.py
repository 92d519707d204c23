"""The hidden states of sequences that are pooled, summed over the chunks of their texts.

The rows of a step are computed together: with each operation on tensors the engine gives Python's lock
away, and waits until another thread, such as one that tokenizes, gives it back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class PooledSum:
    """The sum of a sequence's hidden states that were computed so far.

    hidden_sum  (d,) float64, on the CPU
    unit        hidden_sum scaled to length 1
    length      of hidden_sum; no finite number if a hidden state is not one
    """

    hidden_sum: torch.Tensor
    unit: list[float]
    length: float


def add_chunks(chunk_sums: torch.Tensor, pooled_sums: Sequence[PooledSum | None]) -> list[PooledSum]:
    """Add a step's sums (P, d), float32, to the sums of the steps before it; None: the chunk is the first.

    In float64: neither the sums nor the squares of their lengths overflow.
    """
    hidden_sums = chunk_sums.double()
    for row, pooled_sum in enumerate(pooled_sums):
        if pooled_sum is not None:
            hidden_sums[row] += pooled_sum.hidden_sum
    units = torch.nn.functional.normalize(hidden_sums, dim=1).float().tolist()
    return list(map(PooledSum, hidden_sums, units, hidden_sums.norm(dim=1).tolist()))
