"""One call of the model: which rows of the memory, which tokens, where they stand.

While the model runs, its call is current: the layers, masks and quirks in this folder read it. Knows plain
indices; nothing of a model.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

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


_current: Call | None = None


def current() -> Call | None:
    """The call that the model is computing, None outside of one."""
    return _current


@contextmanager
def computing(call: Call) -> Iterator[None]:
    """Make `call` current. Calls never nest: one thread runs one model."""
    global _current
    assert _current is None, "a call of the model is being computed already"
    _current = call
    try:
        yield
    finally:
        _current = None
