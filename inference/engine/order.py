"""Each row's warpers in the order its request asks for; and the repetition penalty, where that is among them.

Knows sequences and the warpers, nothing of what these do.
"""

from collections.abc import Sequence as Several

from torch import Tensor

from inference.engine.cells import index
from inference.engine.edits import REPETITION, edit
from inference.engine.sequence import Sequence
from inference.engine.warpers import WARPERS

PENALTY = "repetition"
NAMES = (*WARPERS, PENALTY)


def warp(logits: Tensor, sequences: Several[Sequence]) -> Tensor:
    """The logits (n, V), warped row by row; those given are not changed."""
    orders: dict[tuple[str, ...], list[int]] = {}
    for row, sequence in enumerate(sequences):
        orders.setdefault(sequence.task.sampling.order, []).append(row)
    if len(orders) == 1:
        return _warp(logits, sequences, *orders)
    for order, rows in orders.items():
        where = index(rows, logits)
        warped = _warp(logits[where], [sequences[row] for row in rows], order)
        logits = logits.index_copy(0, where, warped)
    return logits


def asked(sequence: Sequence) -> tuple[str, ...]:
    """What changes the sequence's logits here, by name, in its order."""
    return tuple(name for name in names(sequence.task.sampling.order) if _concerns(name, sequence))


def names(order: tuple[str, ...]) -> tuple[str, ...]:
    """Those that the order leaves out come behind the others, in their usual order."""
    return *order, *(name for name in WARPERS if name not in order)


def _concerns(name: str, sequence: Sequence) -> bool:
    if name == PENALTY:
        return any(each.concerns(sequence) for each in REPETITION)
    return bool(getattr(sequence.task.sampling, name) != WARPERS[name].neutral)


def _warp(logits: Tensor, sequences: Several[Sequence], order: tuple[str, ...]) -> Tensor:
    for name in names(order):
        if name == PENALTY:
            logits = edit(logits, sequences, REPETITION)
        else:
            logits = _apply(name, logits, [getattr(s.task.sampling, name) for s in sequences])
    return logits


def _apply(name: str, logits: Tensor, values: Several[float]) -> Tensor:
    """One warper, on the rows whose value is not neutral."""
    warp, neutral = WARPERS[name]
    rows = [row for row, value in enumerate(values) if value != neutral]
    if len(rows) == len(values):
        return warp(logits, values)
    if not rows:
        return logits
    where = index(rows, logits)
    return logits.index_copy(0, where, warp(logits[where], [values[row] for row in rows]))
