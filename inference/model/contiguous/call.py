"""One call of the model: the rows of the memory that it computes, their tokens and positions.

The cache layers, masks and position fixes read it while the model runs. Knows plain indices; nothing of a
model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from inference.model.forward_pass.forward_context import ForwardContext, get_forward_context


@dataclass(slots=True, eq=False)
class ForwardCall(ForwardContext):
    """R adjacent rows of the memory compute q tokens each; attention reads their first n columns.

    Some of the R × q tokens may be padding: idle rows in between, and the tails of shorter rows. Padding is
    computed and discarded, never written to the memory.

    first         the first of the R rows
    num_rows      R
    width         q
    columns       n: one more than the highest position
    uniform       no padding, and all rows have equally many cached tokens: positions derived from the
                  cache's length are right
    first_step    no row has cached tokens
    token_ids     (R, q)
    positions     (R, q)
    slot_mapping  (T,)    Batch.slot_mapping of the real tokens
    real          (T,)    indices of the real tokens among R × q; None: all
    pooled_rows   index into batch.rows of each of pooled_spans
    """

    first: int
    num_rows: int
    width: int
    columns: int
    uniform: bool
    first_step: bool
    token_ids: torch.Tensor
    positions: torch.Tensor
    slot_mapping: torch.Tensor
    real: torch.Tensor | None
    pooled_rows: Sequence[int] = ()


def current_call() -> ForwardCall | None:
    """The running call; None outside of one, and in a forward pass of another runner."""
    context = get_forward_context()
    return context if isinstance(context, ForwardCall) else None
