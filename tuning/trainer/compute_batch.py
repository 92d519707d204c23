"""The loss of a micro-batch, its gradients, and the log probabilities of its targets."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tuning.trainer.losses.block_losses import backward_by_blocks
from tuning.trainer.losses.table import Loss
from tuning.trainer.losses.target_logprobs import target_logprobs
from tuning.trainer.losses.token_losses import ScoredTokens
from tuning.trainer.micro_batches import MicroBatch, Targets
from tuning.trainer.model.base_model import BaseModel
from tuning.trainer.pass_result import ComputedBatch

LossOf = Callable[[ScoredTokens], Tensor]


def compute_batch(
    base: BaseModel, batch: MicroBatch, loss: Loss, config: Mapping[str, float], *, scores_masked: bool
) -> ComputedBatch:
    """Compute the loss, and add its gradients to those of the active weights, unless torch computes none.

    scores_masked: targets that the loss leaves out get log probabilities, too
    """
    output = base.hidden_states(batch.ids, batch.position_ids)
    compute = backward_in_blocks if needs_blocks(base, batch, loss) else backward
    value, logprobs, is_top = compute(base, output, batch, lambda tokens: loss.function(tokens, config))
    masked = None
    if scores_masked and len(batch.masked.ids):
        with torch.no_grad():
            masked, _ = score_targets(base, output, batch.masked)
    return ComputedBatch(batch, value.detach(), logprobs.detach(), masked, is_top.sum())


def needs_blocks(base: BaseModel, batch: MicroBatch, loss: Loss) -> bool:
    """Whether logits would be computed again in the backward pass, which this loss can do without."""
    is_computed_twice = batch.scored.places is not None or not base.has_frozen_output()
    has_targets = len(batch.scored.ids) > 0
    return torch.is_grad_enabled() and loss.is_per_token and is_computed_twice and has_targets


def backward(
    base: BaseModel, output: Any, batch: MicroBatch, loss_of: LossOf
) -> tuple[Tensor, Tensor, Tensor]:
    """Differentiate the loss; returns it, the scored tokens' logprobs, and whether each is on top."""
    logprobs, is_top = score_targets(base, output, batch.scored)
    value = loss_of(ScoredTokens(logprobs, batch.rows, len(batch.indices), batch.inputs))
    if value.requires_grad:
        value.backward()
    return value, logprobs, is_top


def backward_in_blocks(
    base: BaseModel, output: Any, batch: MicroBatch, loss_of: LossOf
) -> tuple[Tensor, Tensor, Tensor]:
    """As `backward`, a block of logits at a time."""
    targets = batch.scored

    def value_of(logprobs: Tensor, selected: slice) -> Tensor:
        inputs = {name: values[selected] for name, values in batch.inputs.items()}
        return loss_of(ScoredTokens(logprobs, batch.rows[selected], len(batch.indices), inputs))

    return backward_by_blocks(
        partial(base.logits, output),
        output.last_hidden_state.flatten(0, 1)[targets.positions],
        targets.ids,
        base.vocab_size,
        targets.places,
        value_of,
    )


def score_targets(base: BaseModel, output: Any, targets: Targets) -> tuple[Tensor, Tensor]:
    """The log probability of each target, and whether it is on top, (P,)."""
    hidden = output.last_hidden_state.flatten(0, 1)[targets.positions]  # (P, H)
    return target_logprobs(
        partial(base.logits, output),
        hidden,
        targets.ids,
        base.vocab_size,
        targets.places,
        frozen_output=base.has_frozen_output(),
    )
