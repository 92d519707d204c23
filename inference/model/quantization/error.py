"""The error that quantization causes in a model's logits, compared with those of the original weights.

Knows only logits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class QuantError:
    """Differences between the logits before and after quantization, over prompts of arbitrary token ids.

    tokens       number of tokens whose logits were compared
    max_error    largest difference of a logit, in standard deviations of the logits before
    rms          root mean square of the differences, in the same unit
    same_argmax  number of tokens after which the most probable token is the same
    divergence   mean KL(before || after) of the next-token distributions, in nats
    """

    tokens: int
    max_error: float
    rms: float
    same_argmax: int
    divergence: float

    def __str__(self) -> str:
        return (
            f"rms error {self.rms:.3f} sd, max {self.max_error:.2f} sd; same argmax after {self.same_argmax} "
            f"of {self.tokens} tokens; divergence {self.divergence:.1e} nats"
        )


def measure_quant_error(before: Sequence[Tensor], after: Sequence[Tensor]) -> QuantError:
    """Compare two lists of logits (T, V), one per prompt."""
    was, now = (torch.cat(list(logits)).float() for logits in (before, after))
    change = (now - was) / was.std()
    first, second = was.log_softmax(-1), now.log_softmax(-1)
    return QuantError(
        tokens=len(was),
        max_error=change.abs().max().item(),
        rms=change.square().mean().sqrt().item(),
        same_argmax=int((was.argmax(-1) == now.argmax(-1)).sum()),
        divergence=(first.exp() * (first - second)).sum(-1).mean().item(),
    )
