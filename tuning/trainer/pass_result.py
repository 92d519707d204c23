"""The result of a pass of the trainer over some data, from those of its micro-batches."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from tuning.trainer.datum import Datum
from tuning.trainer.losses.table import Loss
from tuning.trainer.micro_batches import MicroBatch, split_rows


@dataclass(frozen=True, slots=True)
class PassResult:
    """The result of a pass over some data.

    loss         the sum
    logprobs     by datum: the log probability of each target, float32, (N,) or (N, K) as the targets; NaN
                 where it changes nothing, unless the trainer scores masked targets
    num_correct  targets that were the most probable token
    num_scored   targets that the loss depends on
    """

    loss: float
    logprobs: list[Tensor]
    num_correct: int
    num_scored: int


@dataclass(frozen=True, slots=True)
class ComputedBatch:
    """A micro-batch after its pass; its tensors are on the device, where later passes may still run.

    loss ()  logprobs (M,) of scored targets  masked (N,) of the others, or None  num_correct ()
    """

    batch: MicroBatch
    loss: Tensor
    logprobs: Tensor
    masked: Tensor | None
    num_correct: Tensor


def collect(passes: Sequence[ComputedBatch], data: Sequence[Datum], loss: Loss) -> PassResult:
    """Wait for the device and sum up."""
    logprobs: dict[int, Tensor] = {}
    for each in passes:
        rows = split_rows(each.logprobs, each.masked, each.batch, data, loss)  # sync
        logprobs |= zip(each.batch.indices, rows, strict=True)
    return PassResult(
        sum(each.loss.item() for each in passes),
        [logprobs[index] for index in range(len(data))],
        sum(int(each.num_correct) for each in passes),
        sum(len(each.batch.scored.ids) for each in passes),
    )
