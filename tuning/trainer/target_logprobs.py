"""Log probabilities of targets, from hidden states: the logits of all tokens are never in memory at once.

Knows tensors and a function from hidden states to logits; no model.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

LogitsFn = Callable[[Tensor], Tensor]  # hidden states (M, H) → logits (M, V)

LOGITS_BYTES = 1 << 26  # bytes of float32 logits that are computed at once
MIN_BLOCK = 16  # tokens: with fewer, reading the output layer's weight takes longer than the products


def tokens_per_block(vocab_size: int) -> int:
    return max(MIN_BLOCK, LOGITS_BYTES // (4 * vocab_size))


def target_logprobs(
    logits_of: LogitsFn, hidden: Tensor, targets: Tensor, vocab_size: int
) -> tuple[Tensor, Tensor]:
    """The log probability of each target (M,), float32, and whether it is the most probable token (M,).

    With gradients, blocks are computed again in the backward pass instead of being kept.
    """
    block = tokens_per_block(vocab_size)
    score = partial(score_block, logits_of)
    if len(targets) <= block:
        return score(hidden, targets)
    if torch.is_grad_enabled():
        score = partial(checkpoint, score, use_reentrant=False)
    scores = [score(*each) for each in zip(hidden.split(block), targets.split(block), strict=True)]
    logprobs, is_top = zip(*scores, strict=True)
    return torch.cat(logprobs), torch.cat(is_top)


def score_block(logits_of: LogitsFn, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    logits = logits_of(hidden).float()
    is_top = logits.detach().argmax(-1) == targets
    return -torch.nn.functional.cross_entropy(logits, targets, reduction="none"), is_top
