"""Natural logarithms of probabilities, from raw logits: a chosen token's, and the most probable tokens'.

They are packed into int32, so that they reach the host in the same copy as the ids, and unpacked there.
Knows neither sequences' state nor warpers.
"""

import math
from collections.abc import Sequence as Ids

import torch
from torch import Tensor

from inference.engine.cells import GONE
from inference.engine.sequence import Tops

# Which of several tied tokens are among the best depends on K; so K seldom varies with what rows ask for.
LEAST = 32


def pack(raw: Tensor, ids: Tensor, most: int) -> Tensor:
    """int32 (n, 1 + 2K): each row's logprob of its id, those of the K >= most best tokens, and their ids.

    raw (n, V) float32, ids (n,) int64.
    """
    scores = raw.log_softmax(-1)
    best = scores.topk(min(LEAST * math.ceil(most / LEAST), raw.shape[1]), dim=-1)
    chosen = scores.gather(1, ids[:, None])
    return torch.cat([chosen.view(torch.int32), best.values.view(torch.int32), best.indices.int()], 1)


def ranks(raw: Tensor, ids: Tensor) -> Tensor:
    """int32 (n, 1): how many tokens of each row are at least as likely as its id; the most likely has 1."""
    return (raw >= raw.gather(1, ids[:, None])).sum(-1, keepdim=True).int()


def unpack(packed: Tensor, tops: Ids[int]) -> list[tuple[float, Tops]]:
    """What `pack` made, on the host: per row the logprob, and as many of the best as that row asks for.

    Tied tokens are ordered by id; those that cannot come are left out.
    """
    most = packed.shape[1] // 2
    scores = packed[:, : 1 + most].contiguous().view(torch.float32).tolist()
    ids = packed[:, 1 + most :].tolist()
    return [
        (chosen, _best(best, values, top))
        for (chosen, *values), best, top in zip(scores, ids, tops, strict=True)
    ]


def _best(ids: Ids[int], scores: Ids[float], top: int) -> Tops:
    ranked = sorted(zip(ids, scores, strict=True), key=_rank)
    return tuple(token for token in ranked[:top] if token[1] > GONE)


def _rank(token: tuple[int, float]) -> tuple[float, int]:
    return -token[1], token[0]
