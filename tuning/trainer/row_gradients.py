"""Log probabilities of one target a row, and their gradients, from one look at the logits.

With a frozen output layer, the gradient of a log probability is a row as wide as the hidden states, and every
loss only scales it. So the rows take the place of the logits, as in Liger's fused linear cross entropy
(Hsu et al. 2024, https://arxiv.org/abs/2410.10989). Knows tensors; no model.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

LogitsFn = Callable[[Tensor], Tensor]  # hidden states (M, H) → logits (M, V)


class RowGradients(torch.autograd.Function):
    """Log probabilities (M,) whose gradients with respect to the rows of hidden (M, H) are known, (M, H)."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, logprobs: Tensor, gradients: Tensor) -> Tensor:
        ctx.save_for_backward(gradients)
        return logprobs.view_as(logprobs)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None]:
        (gradients,) = ctx.saved_tensors
        return (gradients * upstream[0][:, None]).to(gradients.dtype), None, None


def score_with_gradients(logits_of: LogitsFn, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The log probability of each target (M,), float32, and whether it is the most probable token (M,).

    hidden (M, H) of the tokens before the targets. A trained weight in logits_of would get no gradient.
    """
    logprobs, is_top, gradients = differentiate(logits_of, hidden.detach().requires_grad_(), targets[:, None])
    return RowGradients.apply(hidden, logprobs, gradients), is_top


def differentiate(logits_of: LogitsFn, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As score_with_gradients for targets (M, 1), and the gradients (M, H)."""
    logits = logits_of(hidden)
    values = logits.detach().float()
    top_ids = values.argmax(-1, keepdim=True)
    margins = values.gather(1, targets) - values.gather(1, top_ids)
    probs = values.softmax(-1)
    del values
    logprobs = margins + probs.gather(1, top_ids).log()  # the largest probability is at least 1 / V: never 0
    probs.scatter_add_(1, targets, probs.new_full(targets.shape, -1.0))
    (gradients,) = torch.autograd.grad(logits, hidden, probs.to(logits.dtype))
    return logprobs[:, 0], (top_ids == targets)[:, 0], gradients.neg_()
