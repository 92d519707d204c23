"""What changes the logits of single tokens, in which order, and whom each change concerns.

An edit changes logits (W, V) in place, in the rows given with their sequences; other rows are untouched.
Edits come before the warpers and hold for greedy rows too. Knows ids only, no text.
"""

from collections.abc import Callable
from collections.abc import Sequence as Several
from typing import NamedTuple

import torch
from torch import Tensor

from inference.engine.cells import Rows, amounts
from inference.engine.masks import banned, beginnings, completed, constraint, early, ngrams, others, short
from inference.engine.penalties import repeats, repetition, shares, window
from inference.engine.sequence import Sequence
from inference.engine.watermark import watermark


class Edit(NamedTuple):
    """reads  what it does depends on which tokens a sequence holds, not only on how many"""

    concerns: Callable[[Sequence], bool]
    apply: Callable[[Tensor, Rows], None]
    reads: bool = False


def bias(logits: Tensor, rows: Rows) -> None:
    """Add the request's bias to the tokens it names."""
    cells, by = amounts(logits, {row: s.task.sampling.bias for row, s in rows.items()})
    logits[cells] += by


# Both come at their place among the warpers instead, where a request's order names them.
REPETITION = (
    Edit(lambda s: s.task.sampling.repetition != 1.0, repetition, reads=True),
    Edit(lambda s: s.task.sampling.window is not None, window, reads=True),
)
# vLLM's order, TGI's watermark before the penalties; the constraint comes last so that nothing weakens it.
EDITS = (
    Edit(lambda s: bool(s.task.sampling.bias), bias),
    Edit(lambda s: s.task.sampling.watermark is not None, watermark, reads=True),
    Edit(lambda s: s.task.sampling.repetition != 1.0 and not s.late, repetition, reads=True),
    Edit(lambda s: s.task.sampling.window is not None and not s.late, window, reads=True),
    Edit(lambda s: bool(s.task.sampling.presence or s.task.sampling.frequency), repeats, reads=True),
    Edit(lambda s: s.task.sampling.frequency_share != 0, shares, reads=True),
    Edit(lambda s: s.task.sampling.no_repeat_ngram > 0, ngrams, reads=True),
    Edit(lambda s: s.task.sampling.allowed is not None, others),
    Edit(lambda s: bool(s.task.sampling.banned), banned),
    Edit(lambda s: s.bans is not None and bool(s.bans.runs), completed, reads=True),
    Edit(lambda s: bool(s.task.sampling.banned_first) and not s.generated, beginnings),
    Edit(lambda s: s.task.matcher is None and short(s), early),
    Edit(lambda s: s.task.matcher is not None, constraint, reads=True),
)
READING = tuple(each for each in (*EDITS, *REPETITION) if each.reads)


def edit(logits: Tensor, sequences: Several[Sequence], edits: Several[Edit] = EDITS) -> Tensor:
    """The logits with every edit applied, in float32; those given, which stay as they are, where none is."""
    edited = logits
    for concerns, apply, _ in edits:
        rows = {row: s for row, s in enumerate(sequences) if concerns(s)}
        if rows:
            edited = logits.to(torch.float32, copy=True) if edited is logits else edited
            apply(edited, rows)
    return edited


def reads(sequence: Sequence) -> bool:
    """Whether its next token depends on which tokens it holds in more ways than the model's own."""
    return any(each.concerns(sequence) for each in READING)
