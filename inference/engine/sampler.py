"""Logits → the next token of every sequence.

Edits, then warpers, then noise and an argmax; only the rows that ask for one of them pay for it. One copy to
the host carries ids and logprobs. Knows sequences and logits; nothing of text, batches or models.
"""

from collections.abc import Callable
from collections.abc import Sequence as Ids
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from inference.engine import logprobs
from inference.engine.cells import index
from inference.engine.draw import draw, taken
from inference.engine.edits import edit
from inference.engine.sequence import Score, Sequence, Tops
from inference.engine.transfer import coming, fetched

BROKEN, EMPTY = -1, -2


@dataclass(frozen=True, slots=True)
class Choice:
    """A sequence's next token. `id` is BROKEN where its logits hold a NaN or an infinity, EMPTY where its
    request has left none.

    logprob and tops are those of the raw distribution, or of the one behind edits and warpers, as the task
    asks; None and () if it does not.
    """

    id: int
    logprob: float | None = None
    tops: Tops = ()


class Drawn(NamedTuple):
    """The next tokens of W rows, which the device may have yet to compute.

    ids      (W,) int64, on the device; below 0 where there is none
    choices  to be called once: waits for them, and tells matchers theirs
    """

    ids: Tensor
    choices: Callable[[], list[Choice]]


class Sampler:
    """Chooses among the first `vocab` columns of the logits."""

    def __init__(self, vocab: int) -> None:
        self.vocab = vocab

    def sample(self, logits: Tensor, sequences: Ids[Sequence]) -> list[Choice]:
        """The next token for each of the rows (W, V), in order; matchers advance by theirs."""
        return self.draw(logits, sequences).choices()

    def draw(self, logits: Tensor, sequences: Ids[Sequence]) -> Drawn:
        """The same, without waiting. The logits may change as soon as it returns."""
        raw = taken(logits[:, : self.vocab])
        edited = edit(raw, sequences)
        tops = {row: s.task.logprobs for row, s in enumerate(sequences) if s.task.logprobs is not None}
        warped = {row: edited[row] for row in tops if sequences[row].task.warped}
        best, ids = draw(edited, sequences, warped)
        ids = ids.where(best.isfinite(), BROKEN if edited is raw else _faults(raw))
        packed = _scores(raw, warped, ids, tops)
        host = coming(torch.cat([ids.int(), packed.flatten()]))
        return Drawn(ids, partial(_choices, host, packed.shape, sequences, tops))

    def score(self, logits: Tensor, ids: Ids[int], tops: int) -> list[Score]:
        """For each row (n, V) how likely its id was, and the `tops` most probable tokens."""
        raw = logits[:, : self.vocab].float()
        chosen = index(ids, raw)
        ranks = logprobs.ranks(raw, chosen)
        host = fetched(torch.cat([ranks, logprobs.pack(raw, chosen, tops)], 1))  # sync
        scores = logprobs.unpack(host[:, 1:], [tops] * len(ids))
        return [Score(*score, rank) for score, rank in zip(scores, host[:, 0].tolist(), strict=True)]


def _choices(
    host: Callable[[], Tensor], packed: torch.Size, sequences: Ids[Sequence], tops: dict[int, int]
) -> list[Choice]:
    """What has come to the host: ids, then scores that are packed in this shape."""
    values = host()  # sync
    chosen = values[: len(sequences)].tolist()
    scores = logprobs.unpack(values[len(sequences) :].view(packed), list(tops.values()))
    _advance(sequences, chosen)
    scored = dict(zip(tops, scores, strict=True))
    return [Choice(id, *scored.get(row, ())) if id >= 0 else Choice(id) for row, id in enumerate(chosen)]


def _scores(raw: Tensor, warped: dict[int, Tensor], ids: Tensor, tops: dict[int, int]) -> Tensor:
    """Packed logprobs of the rows that ask for them; (0, 1) where none does."""
    if not tops:
        return ids.new_empty((0, 1), dtype=torch.int32)
    where = index(tops, raw)
    raw = raw[where].float()
    logits = (
        torch.stack([warped.get(row, own) for row, own in zip(tops, raw, strict=True)]) if warped else raw
    )
    return logprobs.pack(logits, ids[where].clamp(min=0), max(tops.values()))


def _faults(raw: Tensor) -> Tensor:
    """Why each row would have no token (W,): its request's fault where its logits are numbers, else its
    model's."""
    return torch.where(raw.amax(-1).isfinite(), EMPTY, BROKEN)


def _advance(sequences: Ids[Sequence], chosen: Ids[int]) -> None:
    """Tell each matcher its token. An end is none of the text's: no grammar takes it."""
    for sequence, id in zip(sequences, chosen, strict=True):
        matcher = sequence.task.matcher
        if matcher is not None and id >= 0 and id not in sequence.task.ends:
            matcher.advance(id)
