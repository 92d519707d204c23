"""What changes the logits of single tokens: bias, penalties, ends that come too early, constraints.

An edit changes logits (W, V) in place, in the rows given with their sequences; other rows are untouched.
Edits come before the warpers and hold for greedy rows too. Knows ids only, no text.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from inference.engine.sequence import Sequence

GONE = float("-inf")

Rows = Mapping[int, Sequence]
Cells = tuple[Tensor, Tensor]


class Edit(NamedTuple):
    concerns: Callable[[Sequence], bool]
    apply: Callable[[Tensor, Rows], None]


def bias(logits: Tensor, rows: Rows) -> None:
    """Add the request's bias to the tokens it names."""
    cells, amounts = _cells(logits, {row: s.task.sampling.bias for row, s in rows.items()})
    logits[cells] += amounts


def repetition(logits: Tensor, rows: Rows) -> None:
    """Divide a positive logit, multiply a negative one, of each token in the prompt or the answer.

    Keskar et al., "CTRL" (2019), section 4.1; the sign as in transformers' RepetitionPenaltyLogitsProcessor.
    """
    seen = {row: dict.fromkeys(s.tokens, s.task.sampling.repetition) for row, s in rows.items()}
    cells, penalties = _cells(logits, seen)
    before = logits[cells]
    logits[cells] = torch.where(before < 0, before * penalties, before / penalties)


def repeats(logits: Tensor, rows: Rows) -> None:
    """Subtract count * frequency + presence from each token of the answer.

    OpenAI's API reference, "Frequency and presence penalties".
    """
    cells, amounts = _cells(logits, {row: _repeats(s) for row, s in rows.items()})
    logits[cells] -= amounts


def early(logits: Tensor, rows: Rows) -> None:
    """Forbid the ends."""
    cells, _ = _ends(logits, rows)
    logits[cells] = GONE


def constraint(logits: Tensor, rows: Rows) -> None:
    """Forbid what the matcher does, and ends that come too early where the matcher leaves anything else."""
    words = torch.stack([_words(s, logits.shape[1]) for s in rows.values()]).to(
        logits.device, non_blocking=True
    )
    bits = (words[:, :, None] >> torch.arange(32, dtype=torch.int32, device=logits.device)) & 1
    allowed = bits.flatten(1)[:, : logits.shape[1]].bool()
    longer = allowed.clone()
    longer[_ends(logits, {i: s for i, s in enumerate(rows.values()) if _short(s)})[0]] = False
    allowed = torch.where(longer.any(-1, keepdim=True), longer, allowed)
    index = torch.tensor(list(rows)).to(logits.device, non_blocking=True)
    logits[index] = logits[index].masked_fill(~allowed, GONE)


def _short(sequence: Sequence) -> bool:
    return sequence.generated < sequence.task.min_tokens


# vLLM's order, but for the constraint, which comes last so that nothing weakens it.
EDITS = (
    Edit(lambda s: bool(s.task.sampling.bias), bias),
    Edit(lambda s: s.task.sampling.repetition != 1.0, repetition),
    Edit(lambda s: bool(s.task.sampling.presence or s.task.sampling.frequency), repeats),
    Edit(lambda s: s.task.matcher is None and _short(s), early),
    Edit(lambda s: s.task.matcher is not None, constraint),
)


def _repeats(sequence: Sequence) -> dict[int, float]:
    sampling = sequence.task.sampling
    counts = Counter(sequence.answer)
    return {token: count * sampling.frequency + sampling.presence for token, count in counts.items()}


def _ends(logits: Tensor, rows: Rows) -> tuple[Cells, Tensor]:
    return _cells(logits, {row: dict.fromkeys(s.task.ends, GONE) for row, s in rows.items()})


def _words(sequence: Sequence, width: int) -> Tensor:
    """The matcher's mask, int32 (ceil(width / 32),); a token beyond the mask is forbidden."""
    assert sequence.task.matcher is not None
    mask = sequence.task.matcher.allowed()
    num_words = (width + 31) // 32
    if mask is None:
        return torch.full((num_words,), -1, dtype=torch.int32)
    return torch.nn.functional.pad(mask, (0, num_words - len(mask)))  # a negative pad cuts


def _cells(logits: Tensor, amounts: Mapping[int, Mapping[int, float]]) -> tuple[Cells, Tensor]:
    """Where and how much, flat, from row → id → amount. Ids the logits do not have are left out."""
    lengths = torch.tensor([len(cells) for cells in amounts.values()], dtype=torch.int64)
    rows = torch.tensor(list(amounts), dtype=torch.int64).repeat_interleave(lengths)
    ids = torch.tensor(list(chain.from_iterable(amounts.values())), dtype=torch.int64)
    values = torch.tensor(
        list(chain.from_iterable(cells.values() for cells in amounts.values())), dtype=torch.float32
    )
    known = (ids >= 0) & (ids < logits.shape[1])
    rows, ids, values = (t[known].to(logits.device, non_blocking=True) for t in (rows, ids, values))
    return (rows, ids), values
