"""Logits → the next token of every sequence.

Edits, then warpers, then noise and an argmax; only the rows that ask for one of them pay for it. One copy to
the host carries ids and logprobs. Knows sequences and logits; nothing of text, batches or models.
"""

from collections.abc import Sequence as Ids
from dataclasses import dataclass

import torch
from torch import Tensor

from inference.engine import logprobs
from inference.engine.edits import EDITS
from inference.engine.noise import keys, perturb
from inference.engine.sequence import Sequence, Tops
from inference.engine.warpers import WARPERS

BROKEN = -1
# On a CPU rows are drawn a few at a time: what a row needs then stays in the cache, which is twice as fast.
BLOCK = 1 << 18


@dataclass(frozen=True, slots=True)
class Choice:
    """A sequence's next token. `id` is BROKEN where its logits hold a NaN or an infinity, or leave no token.

    logprob and tops are those of the raw distribution, before any edit; None and () unless the task asks.
    """

    id: int
    logprob: float | None = None
    tops: Tops = ()


class Sampler:
    """Chooses among the first `vocab` columns of the logits."""

    def __init__(self, vocab: int) -> None:
        self.vocab = vocab

    def sample(self, logits: Tensor, sequences: Ids[Sequence]) -> list[Choice]:
        """The next token for each of the rows (W, V), in order; matchers advance by theirs."""
        raw = logits[:, : self.vocab].float()
        ids = _draw(_edit(raw, sequences), sequences)
        tops = {row: s.task.logprobs for row, s in enumerate(sequences) if s.task.logprobs is not None}
        packed = _scores(raw, ids, tops)
        host = torch.cat([ids.int(), packed.flatten()]).cpu()  # sync
        chosen = host[: len(sequences)].tolist()
        scores = logprobs.unpack(host[len(sequences) :].view(packed.shape), list(tops.values()))
        _advance(sequences, chosen)
        scored = dict(zip(tops, scores, strict=True))
        return [
            Choice(id, *scored.get(row, ())) if id != BROKEN else Choice(id) for row, id in enumerate(chosen)
        ]

    def score(self, logits: Tensor, ids: Ids[int], tops: int) -> list[tuple[float, Tops]]:
        """For each row (n, V) the logprob of its id, and the `tops` most probable tokens with theirs."""
        raw = logits[:, : self.vocab].float()
        index = torch.tensor(ids, dtype=torch.int64).to(raw.device, non_blocking=True)
        packed = logprobs.pack(raw, index, tops)
        return logprobs.unpack(packed.cpu(), [tops] * len(ids))  # sync


def _edit(raw: Tensor, sequences: Ids[Sequence]) -> Tensor:
    """The logits with every edit applied; `raw` itself, never changed, where there are none."""
    logits = raw
    for edit in EDITS:
        rows = {row: s for row, s in enumerate(sequences) if edit.concerns(s)}
        if rows:
            logits = raw.clone() if logits is raw else logits
            edit.apply(logits, rows)
    return logits


def _draw(logits: Tensor, sequences: Ids[Sequence]) -> Tensor:
    """Ids (W,): the most probable for greedy rows, a draw from the warped distribution for the others."""
    best, ids = logits.max(-1)
    drawn = [row for row, s in enumerate(sequences) if not _greedy(s)]
    step = max(1, BLOCK // logits.shape[1]) if logits.device.type == "cpu" else len(sequences)
    for start in range(0, len(drawn), step):
        rows = drawn[start : start + step]
        block = [sequences[row] for row in rows]
        index = torch.tensor(rows).to(logits.device, non_blocking=True)
        streams = keys([s.task.seed for s in block], [s.generated for s in block], logits.device)
        best[index], ids[index] = perturb(_warp(logits[index], block), streams).max(-1)
    return ids.where(best.isfinite(), BROKEN)


def _greedy(sequence: Sequence) -> bool:
    return sequence.task.sampling.greedy or sequence.task.sampling.temperature == 0


def _warp(logits: Tensor, sequences: Ids[Sequence]) -> Tensor:
    """Each warper, in order, on the rows whose value is not neutral; the logits given are not changed."""
    for name, (warp, neutral) in WARPERS.items():
        values = [getattr(s.task.sampling, name) for s in sequences]
        rows = [row for row, value in enumerate(values) if value != neutral]
        if len(rows) == len(values):
            logits = warp(logits, values)
        elif rows:
            index = torch.tensor(rows).to(logits.device, non_blocking=True)
            logits = logits.index_copy(0, index, warp(logits[index], [values[row] for row in rows]))
    return logits


def _scores(raw: Tensor, ids: Tensor, tops: dict[int, int]) -> Tensor:
    """Packed logprobs of the rows that ask for them; (0, 1) where none does."""
    if not tops:
        return ids.new_empty((0, 1), dtype=torch.int32)
    index = torch.tensor(list(tops)).to(raw.device, non_blocking=True)
    return logprobs.pack(raw[index], ids[index].clamp(min=0), max(tops.values()))


def _advance(sequences: Ids[Sequence], chosen: Ids[int]) -> None:
    """Tell each matcher its token. An end is none of the text's: no grammar takes it."""
    for sequence, id in zip(sequences, chosen, strict=True):
        matcher = sequence.task.matcher
        if matcher is not None and id != BROKEN and id not in sequence.task.ends:
            matcher.advance(id)
