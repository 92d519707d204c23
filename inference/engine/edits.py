"""What changes the logits of single tokens, in which order, and whom each change concerns.

An edit changes logits (W, V) in place, in the rows given with their sequences; other rows are untouched.
Edits come before the warpers and hold for greedy rows too. Knows ids only, no text.
"""

from collections.abc import Callable
from collections.abc import Sequence as Several
from typing import NamedTuple

from torch import Tensor

from inference.engine.cells import Rows, amounts
from inference.engine.masks import banned, beginnings, constraint, early, ngrams, others, short
from inference.engine.penalties import repeats, repetition, shares, window
from inference.engine.sequence import Sequence
from inference.engine.watermark import watermark


class Edit(NamedTuple):
    concerns: Callable[[Sequence], bool]
    apply: Callable[[Tensor, Rows], None]


def bias(logits: Tensor, rows: Rows) -> None:
    """Add the request's bias to the tokens it names."""
    cells, by = amounts(logits, {row: s.task.sampling.bias for row, s in rows.items()})
    logits[cells] += by


# Both come at their place among the warpers instead, where a request's order names them.
REPETITION = (
    Edit(lambda s: s.task.sampling.repetition != 1.0, repetition),
    Edit(lambda s: s.task.sampling.window is not None, window),
)
# vLLM's order, TGI's watermark before the penalties; the constraint comes last so that nothing weakens it.
EDITS = (
    Edit(lambda s: bool(s.task.sampling.bias), bias),
    Edit(lambda s: s.task.sampling.watermark is not None, watermark),
    Edit(lambda s: s.task.sampling.repetition != 1.0 and not s.late, repetition),
    Edit(lambda s: s.task.sampling.window is not None and not s.late, window),
    Edit(lambda s: bool(s.task.sampling.presence or s.task.sampling.frequency), repeats),
    Edit(lambda s: s.task.sampling.frequency_share != 0, shares),
    Edit(lambda s: s.task.sampling.no_repeat_ngram > 0, ngrams),
    Edit(lambda s: s.task.sampling.allowed is not None, others),
    Edit(lambda s: bool(s.task.sampling.banned), banned),
    Edit(lambda s: bool(s.task.sampling.banned_first) and not s.generated, beginnings),
    Edit(lambda s: s.task.matcher is None and short(s), early),
    Edit(lambda s: s.task.matcher is not None, constraint),
)


def edit(logits: Tensor, sequences: Several[Sequence], edits: Several[Edit] = EDITS) -> Tensor:
    """The logits with every edit applied; those given, which are never changed, where there are none."""
    edited = logits
    for concerns, apply in edits:
        rows = {row: s for row, s in enumerate(sequences) if concerns(s)}
        if rows:
            edited = logits.clone() if edited is logits else edited
            apply(edited, rows)
    return edited
