"""Watermark: each token favours a share of the vocabulary for the next token.

Kirchenbauer et al., "A Watermark for Large Language Models" (2023), algorithm 2; hash key, seeding and green
list as in Text Generation Inference, watermark.py. The green list is always drawn on the CPU, so that it is
the same for a detector on another device.
"""

from functools import lru_cache

import torch
from torch import Tensor

from inference.engine.sampling.scatter import SequencesByRow, column_tensor, index_tensor
from inference.engine.sequence import Sequence
from inference.model.device_copy import to_device

HASH_KEY = 15_485_863
# A permutation of 128,000 costs 1 ms and a list takes V bytes; a few frequent tokens precede most others.
CACHED_LISTS = 256


def add_watermark(logits: Tensor, rows: SequencesByRow) -> None:
    """Add delta to the tokens on the green list of the last token."""
    masks = torch.stack([_green_mask(s, logits.shape[1]) for s in rows.values()])
    deltas = column_tensor(
        [s.request.sampling.watermark.delta for s in rows.values() if s.request.sampling.watermark], logits
    )
    logits[index_tensor(rows, logits)] += to_device(masks, logits.device) * deltas


def _green_mask(sequence: Sequence, vocab: int) -> Tensor:
    watermark_params = sequence.request.sampling.watermark
    assert watermark_params is not None
    return green_list(sequence.token_ids[-1], watermark_params.gamma, vocab)


@lru_cache(CACHED_LISTS)
def green_list(token_id: int, gamma: float, vocab: int) -> Tensor:
    """Mask (V,) of the tokens favoured after `token_id`: a share gamma of all. Read-only."""
    generator = torch.Generator().manual_seed(HASH_KEY * token_id)
    mask = torch.zeros(vocab, dtype=torch.bool)
    mask[torch.randperm(vocab, generator=generator)[: int(vocab * gamma)]] = True
    return mask
