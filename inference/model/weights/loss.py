"""What quantising has done to a model's logits, against those of the weights as its files have them.

Knows logits alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Loss:
    """Over `tokens` tokens of no text.

    largest     by how much a logit differs at most, in standard deviations of the logits
    typical     the root of the mean square of these differences
    same        of the tokens, those behind which the same one is the most probable
    divergence  Kullback-Leibler's, of the probabilities that were from those that are: the mean, in nats
    """

    tokens: int
    largest: float
    typical: float
    same: int
    divergence: float

    def __str__(self) -> str:
        return (
            f"error {self.typical:.3f} sd, {self.largest:.2f} at most; same choice behind {self.same} of "
            f"{self.tokens} tokens; divergence {self.divergence:.1e} nats"
        )


def loss(before: Sequence[Tensor], after: Sequence[Tensor]) -> Loss:
    """Of logits (T, V) for each of the same prompts."""
    was, now = (torch.cat(list(logits)).float() for logits in (before, after))
    change = (now - was) / was.std()
    first, second = was.log_softmax(-1), now.log_softmax(-1)
    return Loss(
        tokens=len(was),
        largest=change.abs().max().item(),
        typical=change.square().mean().sqrt().item(),
        same=int((was.argmax(-1) == now.argmax(-1)).sum()),
        divergence=(first.exp() * (first - second)).sum(-1).mean().item(),
    )
