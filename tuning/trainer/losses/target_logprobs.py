"""Log probabilities of targets, from hidden states: the logits of all tokens are never in memory at once.

Knows tensors and a function from hidden states to logits; no model.
"""

from collections.abc import Iterable
from functools import partial

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tuning.trainer.losses.row_gradients import LogitsFn, RowGradients, score_logits, score_with_gradients

# Bytes of float32 logits that are computed at once. Each block reads the weight of the output layer again.
LOGITS_BYTES = {"cpu": 1 << 26, "cuda": 1 << 28}
MIN_BLOCK = 16  # tokens: with fewer, reading the output layer's weight takes longer than the products


def tokens_per_block(vocab_size: int, device: str) -> int:
    """How many tokens have their logits at once. device: its type."""
    return max(MIN_BLOCK, LOGITS_BYTES.get(device, LOGITS_BYTES["cpu"]) // (4 * vocab_size))


def target_logprobs(
    logits_of: LogitsFn,
    hidden: Tensor,
    targets: Tensor,
    vocab_size: int,
    places: Tensor | None = None,
    *,
    frozen_output: bool,
) -> tuple[Tensor, Tensor]:
    """The log probability of each target (M,), float32, and whether it is the most probable token (M,).

    hidden         (P, H) of the tokens before the targets
    places         (M,) ascending: the row of `hidden` before each target; None: one target a row
    frozen_output  logits_of has no trained weight

    With gradients, logits of blocks are not kept. One target a row of a frozen output layer has its gradient
    computed at once; other blocks are computed again in the backward pass, unless block_losses.py has them.
    """
    block = tokens_per_block(vocab_size, hidden.device.type)
    if torch.is_grad_enabled() and frozen_output and places is None:
        blocks = zip(hidden.split(block), targets.split(block), strict=True)
        return concatenate(score_with_gradients(logits_of, rows, ids) for rows, ids in blocks)
    score = partial(score_block, logits_of)
    if len(hidden) <= block:
        return score(hidden, targets, places)
    if torch.is_grad_enabled():
        score = partial(checkpoint, score, use_reentrant=False)
    return concatenate(
        score(rows, *targets_of(targets, places, first, first + len(rows)))
        for first, rows in zip(range(0, len(hidden), block), hidden.split(block), strict=True)
    )


def concatenate(scores: Iterable[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    logprobs, is_top = zip(*scores, strict=True)
    return torch.cat(logprobs), torch.cat(is_top)


def targets_of(targets: Tensor, places: Tensor | None, first: int, end: int) -> tuple[Tensor, Tensor | None]:
    """The targets behind rows first to end, and their places counted from `first`."""
    if places is None:
        return targets[first:end], None
    is_within = (places >= first) & (places < end)
    return targets[is_within], places[is_within] - first


def score_block(
    logits_of: LogitsFn, hidden: Tensor, targets: Tensor, places: Tensor | None
) -> tuple[Tensor, Tensor]:
    logits = logits_of(hidden)
    if places is None:
        logprobs, is_top, gradients = score_logits(
            logits.detach(), targets, with_gradients=logits.requires_grad
        )
        return logprobs if gradients is None else RowGradients.apply(logits, logprobs, gradients), is_top
    values = logits.float()
    top_ids = values.detach().argmax(-1)
    return values.log_softmax(-1)[places, targets], top_ids[places] == targets
