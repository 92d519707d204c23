"""Each row's next token: the most probable for greedy rows, for others a draw from what their warpers leave.

There are two ways to the same tokens: torch's, on any device and behind any warpers; and on a CPU native
code's, which leaves to torch what is too near to tell. Knows sequences and logits.
"""

from collections.abc import Sequence as Several
from typing import NamedTuple

import torch
from torch import Tensor

from inference.engine.cells import GONE, index
from inference.engine.noise import keys, perturb, states
from inference.engine.order import asked, warp
from inference.engine.sequence import Sequence
from inference.engine.warpers import COLDEST, HOTTEST
from inference.native import draw as native
from inference.sampling import Sampling

# Torch draws few rows at a time on a CPU: what a row needs then stays in the cache, which is twice as fast.
# Those that native code leaves to it come one at a time, so that none depends on which others are left.
BLOCK = 1 << 18
KNOWN = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
)  # the warpers behind which native code draws, where they are in this order


class Best(NamedTuple):
    """values (n,) that the rows' tokens had, which are no numbers where logits are none, or none is left;
    ids (n,) int64."""

    values: Tensor
    ids: Tensor


def taken(logits: Tensor) -> Tensor:
    """The logits (W, V) in a form that `draw` takes: as they are, or a copy in float32."""
    return logits if native.takes(logits) else logits.float()


def draw(logits: Tensor, sequences: Several[Sequence], warped: dict[int, Tensor]) -> Best:
    """The tokens of the rows (W, V). Of those in `warped`, they that are drawn get there what from."""
    if not native.takes(logits):
        best = Best(*logits.max(-1))
        parts = _blocks(logits, [row for row, s in enumerate(sequences) if not s.greedy])
    else:
        best, left = _natively(logits, sequences, warped)
        parts = [[row] for row in left]
    for part in parts:
        where, block = index(part, logits), [sequences[row] for row in part]
        shaped = warp(logits[where].float(), block)
        streams = keys([s.task.seed for s in block], [s.generated for s in block], logits.device)
        warped |= {row: shaped[place].clone() for place, row in enumerate(part) if row in warped}
        best.values[where], best.ids[where] = perturb(shaped, streams).max(-1)
    return best


def _blocks(logits: Tensor, rows: list[int]) -> list[list[int]]:
    size = max(1, BLOCK // logits.shape[1]) if logits.device.type == "cpu" else max(1, len(rows))
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _natively(
    logits: Tensor, sequences: Several[Sequence], warped: dict[int, Tensor]
) -> tuple[Best, list[int]]:
    """The tokens that native code can find, and the rows that are left."""
    best = Best(torch.empty(len(sequences)), torch.empty(len(sequences), dtype=torch.int64))
    greedy = [row for row, s in enumerate(sequences) if s.greedy]
    drawn = [row for row, s in enumerate(sequences) if not s.greedy]
    known = [row for row in drawn if row not in warped and _is_known(asked(sequences[row]))]
    left = set(drawn).difference(known)
    if greedy:
        where = index(greedy, logits)
        best.values[where], best.ids[where] = native.largest(logits, where)
    if known:
        where = index(known, logits)
        best.ids[where] = ids = _winners(logits, where, [sequences[row] for row in known])
        best.values[where] = torch.where(ids >= 0, 0.0, GONE)
        left.update(where[ids == native.TOO_NEAR].tolist())
    return best, sorted(left)


def _winners(logits: Tensor, where: Tensor, sequences: Several[Sequence]) -> Tensor:
    """Of the sequences, whose logits the rows `where` are, what native code draws."""
    asks = [s.task.sampling for s in sequences]
    heats = torch.tensor([each.temperature for each in asks], dtype=torch.float32).clamp_(COLDEST, HOTTEST)
    starts = states([s.task.seed for s in sequences], [s.generated for s in sequences])
    return native.winners(logits, where, starts, heats, _floors(logits, where, heats, asks))


def _floors(logits: Tensor, where: Tensor, heats: Tensor, asks: Several[Sampling]) -> Tensor | None:
    """Below which values no token is left; None where no row has such a value."""
    if not any(each.top_k or each.top_p < 1 or each.min_p for each in asks):
        return None
    top_k = torch.tensor([min(each.top_k, logits.shape[1]) for each in asks], dtype=torch.int32)
    shares = [each.top_p for each in asks], [each.min_p for each in asks]
    top_p, min_p = torch.tensor(shares, dtype=torch.float32)
    return native.floors(logits, where, heats, top_k, top_p, min_p)


def _is_known(names: tuple[str, ...]) -> bool:
    return names == tuple(name for name in KNOWN if name in names)
