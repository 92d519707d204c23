"""Numbers from the host at their places in the logits: one a row, or one a cell.

Knows shapes and devices; nothing of what the numbers mean.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Values
from itertools import chain

import torch
from torch import Tensor

from inference.engine.sequence import Sequence
from inference.engine.transfer import sent

GONE = float("-inf")

Rows = Mapping[int, Sequence]  # which rows of the logits a function is to change, and whose they are
Cells = tuple[Tensor, Tensor]  # rows and columns
NONE = torch.empty(0, dtype=torch.int64)


def index(rows: Iterable[int], like: Tensor) -> Tensor:
    """Row numbers (n,), on the device of `like`."""
    return sent(torch.tensor(list(rows), dtype=torch.int64), like.device)


def column(values: Values[float], like: Tensor) -> Tensor:
    """One value per row, (n, 1), on the device of `like`."""
    return sent(torch.tensor(values, dtype=torch.float32)[:, None], like.device)


def places(logits: Tensor, ids: Mapping[int, Tensor]) -> Cells:
    """The cells of these ids (k,), by row. Ids the logits do not have are left out."""
    return _known(logits, ids, torch.cat([NONE, *ids.values()]))[0]


def amounts(logits: Tensor, given: Mapping[int, Mapping[int, float]]) -> tuple[Cells, Tensor]:
    """Where and how much, from row → id → amount. Ids the logits do not have are left out."""
    ids = torch.tensor(list(chain.from_iterable(given.values())), dtype=torch.int64)
    values = torch.tensor(
        list(chain.from_iterable(cells.values() for cells in given.values())), dtype=torch.float32
    )
    where, known = _known(logits, given, ids)
    return where, sent(values[known], logits.device)


def _known(
    logits: Tensor, by_row: Mapping[int, Tensor | Mapping[int, float]], ids: Tensor
) -> tuple[Cells, Tensor]:
    """The cells of the ids that the logits have, and which these are."""
    lengths = torch.tensor([len(each) for each in by_row.values()], dtype=torch.int64)
    rows = torch.tensor(list(by_row), dtype=torch.int64).repeat_interleave(lengths)
    known = (ids >= 0) & (ids < logits.shape[1])
    there, here = (sent(t[known], logits.device) for t in (rows, ids))
    return (there, here), known
