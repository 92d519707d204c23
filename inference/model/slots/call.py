"""One call of the model: which rows of the memory, which tokens, where they stand.

While the model runs, its call is current: the layers, masks and quirks in this folder read it. Knows plain
indices; nothing of a model.
"""

from dataclasses import dataclass, field

import torch

from inference.model.current import Current
from inference.model.split.copies import Copies


@dataclass(slots=True, eq=False)
class Call:
    """R adjacent rows of the memory take q tokens each; attention reads their first n columns.

    Some of the R × q tokens may be padding: rows in between that take no part, the tails of shorter rows.
    Padding is computed and thrown away, never written to the memory.

    first      the first of the R rows
    columns    n: one more than the highest position
    even       no padding, and every row has as many tokens behind it: a model that guesses positions from the
               cache's length guesses right
    fresh      no row has tokens behind it
    ids        (R, q)
    positions  (R, q)
    slots      (T,)    row × columns of the memory + column, for each real token
    real       (T,)    which of the R × q tokens are real; None: all
    wanted     (W,)    which of the R × q tokens' logits are wanted; None: all
    picked     the output layer was given the wanted tokens alone
    copies     of these tensors, for layers that are elsewhere
    """

    first: int
    num_rows: int
    width: int
    columns: int
    even: bool
    fresh: bool
    ids: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    real: torch.Tensor | None
    wanted: torch.Tensor | None
    picked: bool = False
    copies: Copies = field(default_factory=Copies)


_calls = Current[Call]()
current, computing = _calls.get, _calls.computing
