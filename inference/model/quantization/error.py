"""The error that quantization causes in a model's logits, compared with those of the original weights.

Knows only logits.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

TOKENS_AT_ONCE = 4  # compared, in float32: with a vocabulary of 152,000, 2.4 MB for each of some tensors


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
    deviation, num_tokens = standard_deviation(before), sum(map(len, before))
    max_errors, squares, same_argmax, divergence = list[Tensor](), 0.0, 0, 0.0
    for was, now in zip(in_blocks(before), in_blocks(after), strict=True):
        change = (now - was) / deviation
        first, second = was.log_softmax(-1), now.log_softmax(-1)
        max_errors.append(change.abs().max())
        squares += change.square().mean(-1).sum().item()
        same_argmax += int((was.argmax(-1) == now.argmax(-1)).sum())
        divergence += (first.exp() * (first - second)).sum().item()
    max_error = torch.stack(max_errors).max().item()  # nan if one is
    rms = math.sqrt(squares / num_tokens)
    return QuantError(num_tokens, max_error, rms, same_argmax, divergence / num_tokens)


def standard_deviation(logits: Sequence[Tensor]) -> float:
    """That of all numbers together."""
    count = sum(each.numel() for each in logits)
    mean = sum(block.sum().item() for block in in_blocks(logits)) / count
    squares = sum((block - mean).square().sum().item() for block in in_blocks(logits))
    return math.sqrt(squares / (count - 1))


def in_blocks(logits: Sequence[Tensor]) -> Iterator[Tensor]:
    """The logits of a few tokens at a time, in float32."""
    return (block.float() for each in logits for block in each.split(TOKENS_AT_ONCE))
