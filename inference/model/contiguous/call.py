"""One call of the model: the rows of the memory that it computes, their tokens and positions.

The cache layers, masks and position fixes read the current call while the model runs. Knows plain indices;
nothing of a model.
"""

from dataclasses import dataclass, field

import torch

from inference.model.forward_context import ForwardContext
from inference.model.placement.hooks import DeviceCopies


@dataclass(slots=True, eq=False)
class ForwardCall:
    """R adjacent rows of the memory compute q tokens each; attention reads their first n columns.

    Some of the R × q tokens may be padding: idle rows in between, and the tails of shorter rows. Padding is
    computed and discarded, never written to the memory.

    first            the first of the R rows
    num_rows         R
    width            q
    columns          n: one more than the highest position
    uniform          no padding, and all rows have equally many cached tokens: positions derived from the
                     cache's length are right
    first_step       no row has cached tokens
    token_ids        (R, q)
    positions        (R, q)
    slot_mapping     (T,)    row × columns of the memory + column, for each real token
    real             (T,)    indices of the real tokens among R × q; None: all
    logits_indices   (W,)    indices among R × q whose logits are returned; None: all
    logits_selected  whether the output layer was given only the tokens of logits_indices
    copies           copies of these tensors for layers on other devices
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
    logits_indices: torch.Tensor | None
    logits_selected: bool = False
    copies: DeviceCopies = field(default_factory=DeviceCopies)


_context = ForwardContext[ForwardCall]()
current_call, use_call = _context.get, _context.use
