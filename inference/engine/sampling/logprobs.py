"""Logprobs from logits: of the sampled token and of the most probable tokens.

They are packed into int32, so that they reach the host in the same copy as the ids, and unpacked there. Knows
neither sequences nor warpers.
"""

import math
from collections.abc import Sequence as SequenceOf

import torch
from torch import Tensor

from inference.engine.sampling.scatter import NEG_INF
from inference.engine.step_output import TopLogprobs

# Which of several tied tokens are among the top K depends on K; rounded up, K seldom changes.
K_MULTIPLE = 32


def pack(raw: Tensor, ids: Tensor, max_top: int) -> Tensor:
    """int32 (n, 1 + 2K): per row the logprob of its id, the K >= max_top largest logprobs, and their ids.

    raw (n, V) float32, ids (n,) int64.
    """
    scores = raw.log_softmax(-1)
    top = scores.topk(min(K_MULTIPLE * math.ceil(max_top / K_MULTIPLE), raw.shape[1]), dim=-1)
    token_logprobs = scores.gather(1, ids[:, None])
    return torch.cat([token_logprobs.view(torch.int32), top.values.view(torch.int32), top.indices.int()], 1)


def ranks(raw: Tensor, ids: Tensor) -> Tensor:
    """int32 (n, 1): how many tokens of a row are at least as probable as its id; 1 for the most probable."""
    return (raw >= raw.gather(1, ids[:, None])).sum(-1, keepdim=True).int()


def unpack(packed_logprobs: Tensor, top_counts: SequenceOf[int]) -> list[tuple[float, TopLogprobs]]:
    """Unpack the result of `pack` on the host: for each row the logprob and its top_counts top logprobs.

    Tied tokens are ordered by id; tokens of probability 0 are omitted.
    """
    num_top = packed_logprobs.shape[1] // 2
    scores = packed_logprobs[:, : 1 + num_top].contiguous().view(torch.float32).tolist()
    ids = packed_logprobs[:, 1 + num_top :].tolist()
    return [
        (logprob, _top_logprobs(top_ids, top_values, top))
        for (logprob, *top_values), top_ids, top in zip(scores, ids, top_counts, strict=True)
    ]


def _top_logprobs(token_ids: SequenceOf[int], logprobs: SequenceOf[float], top: int) -> TopLogprobs:
    pairs = sorted(zip(token_ids, logprobs, strict=True), key=lambda pair: (-pair[1], pair[0]))
    return tuple(pair for pair in pairs[:top] if pair[1] > NEG_INF)
