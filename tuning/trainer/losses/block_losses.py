"""Losses whose terms are single tokens, computed and differentiated a block of tokens at a time.

The gradient of each term is known with the block's logits, so no logits are computed twice, trained output
layer or not. Knows tensors and functions; no model and no loss.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from tuning.trainer.losses.row_gradients import LogitsFn
from tuning.trainer.losses.target_logprobs import concatenate, score_block, targets_of, tokens_per_block

ValueFn = Callable[[Tensor, slice], Tensor]  # log probabilities of a range of targets, the range → their loss


def backward_by_blocks(
    logits_of: LogitsFn,
    hidden: Tensor,
    targets: Tensor,
    vocab_size: int,
    places: Tensor | None,
    value_of: ValueFn,
) -> tuple[Tensor, Tensor, Tensor]:
    """Differentiate a loss; returns its value (), and what target_logprobs returns.

    hidden, targets, places: as there; one row of `hidden` at least
    """
    block = tokens_per_block(vocab_size, hidden.device.type)
    total, scores, gradients = hidden.new_zeros((), dtype=torch.float32), [], []
    num_scored = 0
    for first in range(0, len(hidden), block):
        rows = hidden[first : first + block].detach().requires_grad_(hidden.requires_grad)
        ids, own_places = targets_of(targets, places, first, first + len(rows))
        logprobs, is_top = score_block(logits_of, rows, ids, own_places)
        value = value_of(logprobs, slice(num_scored, num_scored + len(ids)))
        value.backward()
        num_scored += len(ids)
        total += value.detach()
        scores.append((logprobs.detach(), is_top))
        gradients.append(rows.grad)
    if hidden.requires_grad:
        hidden.backward(torch.cat([each for each in gradients if each is not None]))
    return total, *concatenate(scores)
