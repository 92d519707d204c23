"""What may not come next: banned and repeated runs, beginnings, early ends, what is not allowed.

Each sets logits (W, V) to minus infinity in place, in the rows given with their sequences. Knows ids only.
"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from inference.engine.bans import Bans, followers, tensor
from inference.engine.cells import GONE, Rows, index, places
from inference.engine.sequence import Sequence
from inference.engine.transfer import sent


def ngrams(logits: Tensor, rows: Rows) -> None:
    """Forbid what would complete a run of no_repeat_ngram tokens that has come before.

    As transformers' NoRepeatNGramLogitsProcessor.
    """
    _forbid(logits, {row: _repeating(s) for row, s in rows.items()})


def banned(logits: Tensor, rows: Rows) -> None:
    """Forbid single tokens.

    As transformers' NoBadWordsLogitsProcessor, which spares the ends; this does not.
    """
    logits[places(logits, {row: _bans(s).never for row, s in rows.items()})] = GONE


def completed(logits: Tensor, rows: Rows) -> None:
    """Forbid what would complete a banned run of several tokens; as `banned` otherwise."""
    _forbid(logits, {row: _bans(s).completing(s.tokens) for row, s in rows.items()})


def beginnings(logits: Tensor, rows: Rows) -> None:
    """Forbid what may not come first."""
    _forbid(logits, {row: s.task.sampling.banned_first for row, s in rows.items()})


def others(logits: Tensor, rows: Rows) -> None:
    """Forbid all but what is allowed, and the ends."""
    cells = places(logits, {row: _bans(s).only for row, s in rows.items()})
    kept = logits[cells]
    logits[index(rows, logits)] = GONE
    logits[cells] = kept


def early(logits: Tensor, rows: Rows) -> None:
    """Forbid the ends."""
    _forbid(logits, {row: s.task.ends for row, s in rows.items()})


def constraint(logits: Tensor, rows: Rows) -> None:
    """Forbid what the matcher does, and ends that come too early where anything else is left."""
    where = index(rows, logits)
    before = logits[where]
    words = torch.stack([_words(s, logits.shape[1]) for s in rows.values()])
    words = sent(words, logits.device)
    bits = (words[:, :, None] >> torch.arange(32, dtype=torch.int32, device=logits.device)) & 1
    allowed = bits.flatten(1)[:, : logits.shape[1]].bool()
    longer = allowed & (before != GONE)
    ends = {i: tensor(s.task.ends) for i, s in enumerate(rows.values()) if short(s)}
    longer[places(longer, ends)] = False
    allowed = torch.where(longer.any(-1, keepdim=True), longer, allowed)
    logits[where] = before.masked_fill(~allowed, GONE)


def short(sequence: Sequence) -> bool:
    """Whether its answer may not end yet."""
    return sequence.generated < sequence.task.min_tokens


def _forbid(logits: Tensor, ids: Mapping[int, Iterable[int]]) -> None:
    logits[places(logits, {row: tensor(each) for row, each in ids.items()})] = GONE


def _repeating(sequence: Sequence) -> set[int]:
    size, tokens = sequence.task.sampling.no_repeat_ngram, sequence.tokens
    return followers(tokens, tokens[len(tokens) + 1 - size :]) if len(tokens) >= size else set()


def _bans(sequence: Sequence) -> Bans:
    assert sequence.bans is not None
    return sequence.bans


def _words(sequence: Sequence, width: int) -> Tensor:
    """The matcher's mask, int32 (ceil(width / 32),); a token beyond the mask is forbidden."""
    assert sequence.task.matcher is not None
    mask = sequence.task.matcher.allowed()
    num_words = (width + 31) // 32
    if mask is None:
        return torch.full((num_words,), -1, dtype=torch.int32)
    return torch.nn.functional.pad(mask, (0, num_words - len(mask)))  # a negative pad cuts
