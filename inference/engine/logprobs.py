"""Natural logarithms of probabilities, from raw logits: a chosen token's, and the most probable tokens'.

They are packed into int32, so that they reach the host in the same copy as the ids, and unpacked there.
Knows neither sequences' state nor warpers.
"""

from collections.abc import Sequence as Ids

import torch
from torch import Tensor

from inference.engine.sequence import Tops


def pack(raw: Tensor, ids: Tensor, most: int) -> Tensor:
    """int32 (n, 1 + 2 most): each row's logprob of its id, the logprobs of the `most` best, the ids of these.

    raw (n, V) float32, ids (n,) int64, most at most V.
    """
    scores = raw.log_softmax(-1)
    best = scores.topk(most, dim=-1)
    chosen = scores.gather(1, ids[:, None])
    return torch.cat([chosen.view(torch.int32), best.values.view(torch.int32), best.indices.int()], 1)


def unpack(packed: Tensor, tops: Ids[int]) -> list[tuple[float, Tops]]:
    """What `pack` made, on the host: per row the logprob, and as many of the best as that row asks for."""
    most = packed.shape[1] // 2
    scores = packed[:, : 1 + most].contiguous().view(torch.float32).tolist()
    ids = packed[:, 1 + most :].tolist()
    return [
        (score[0], tuple(zip(best[:top], score[1 : 1 + top], strict=True)))
        for score, best, top in zip(scores, ids, tops, strict=True)
    ]
