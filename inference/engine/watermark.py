"""A mark in the choice of words: each token favours a part of the vocabulary for the next.

Kirchenbauer et al., "A Watermark for Large Language Models" (2023), algorithm 2; hash key, seeding and list
as in Text Generation Inference, watermark.py. Drawn on the CPU everywhere: a detector knows no device.
"""

from functools import lru_cache

import torch
from torch import Tensor

from inference.engine.cells import Rows, column, index
from inference.engine.sequence import Sequence
from inference.engine.transfer import sent

HASH_KEY = 15_485_863
# Lists kept: a permutation of 128,000 costs 1 ms, and few tokens follow most others; a list takes V bytes.
KEPT = 256


def watermark(logits: Tensor, rows: Rows) -> None:
    """Add delta to the tokens that the last one favours."""
    masks = torch.stack([_favoured(s, logits.shape[1]) for s in rows.values()])
    deltas = column(
        [s.task.sampling.watermark.delta for s in rows.values() if s.task.sampling.watermark], logits
    )
    logits[index(rows, logits)] += sent(masks, logits.device) * deltas


def _favoured(sequence: Sequence, vocab: int) -> Tensor:
    mark = sequence.task.sampling.watermark
    assert mark is not None
    return greens(sequence.tokens[-1], mark.gamma, vocab)


@lru_cache(KEPT)
def greens(token: int, gamma: float, vocab: int) -> Tensor:
    """Mask (V,) of the tokens favoured behind `token`: a share gamma of all. Not to be changed."""
    generator = torch.Generator().manual_seed(HASH_KEY * token)
    mask = torch.zeros(vocab, dtype=torch.bool)
    mask[torch.randperm(vocab, generator=generator)[: int(vocab * gamma)]] = True
    return mask
