"""Log probabilities of one target a row, and their gradients, from one look at the logits.

With a frozen output layer, the gradient of a log probability is a row as wide as the hidden states, and every
loss only scales it. So the rows take the place of the logits, as in Liger's fused linear cross entropy
(Hsu et al. 2024, https://arxiv.org/abs/2410.10989). Knows tensors; no model.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from inference.native.logprobs import token_logprobs
from inference.native.sampling import supports

LogitsFn = Callable[[Tensor], Tensor]  # hidden states (M, H) → logits (M, V)


class RowGradients(torch.autograd.Function):
    """Log probabilities (M,) whose gradients with respect to rows (M, H) are known, (M, H)."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, logprobs: Tensor, gradients: Tensor) -> Tensor:
        ctx.save_for_backward(gradients)
        return logprobs.view_as(logprobs)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None]:
        (gradients,) = ctx.saved_tensors
        return gradients.mul_(upstream[0][:, None]), None, None  # a graph is differentiated once


def score_with_gradients(logits_of: LogitsFn, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The log probability of each target (M,), float32, and whether it is the most probable token (M,).

    hidden (M, H) of the tokens before the targets. A trained weight in logits_of would get no gradient.
    """
    logprobs, is_top, gradients = differentiate(logits_of, hidden.detach().requires_grad_(), targets)
    return RowGradients.apply(hidden, logprobs, gradients), is_top


def differentiate(logits_of: LogitsFn, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As score_with_gradients, and the gradients (M, H)."""
    logits = logits_of(hidden)
    logprobs, is_top, upstream = score_logits(logits.detach(), targets, with_gradients=True)
    (gradients,) = torch.autograd.grad(logits, hidden, upstream)
    return logprobs, is_top, gradients


def score_logits(
    logits: Tensor, targets: Tensor, *, with_gradients: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The log probability of each target (M,), float32, and whether it is the most probable token (M,).

    logits (M, V). The third value is the gradients of the log probabilities, in the shape and dtype of the
    logits.
    """
    if not supports(logits):
        return score_in_torch(logits, targets, with_gradients=with_gradients)
    gradients = logits.new_empty(logits.shape) if with_gradients else None
    logprobs, top_ids = token_logprobs(logits, targets.contiguous(), gradients)
    return logprobs, top_ids == targets, gradients


def score_in_torch(
    logits: Tensor, targets: Tensor, *, with_gradients: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """As score_logits, on any device."""
    values = logits.float()
    top_ids, columns = values.argmax(-1, keepdim=True), targets[:, None]
    margins = values.gather(1, columns) - values.gather(1, top_ids)
    probs = values.softmax(-1)
    del values
    logprobs = margins + probs.gather(1, top_ids).log()  # the largest probability is at least 1 / V: never 0
    gradients = None
    if with_gradients:
        probs.scatter_add_(1, columns, probs.new_full(columns.shape, -1.0))
        gradients = probs.neg_().to(logits.dtype)
    return logprobs[:, 0], (top_ids == columns)[:, 0], gradients
