"""Losses of single sequences: sums over their tokens, so that the gradients of several passes add up.

Formulas: Tinker's documentation (https://tinker-docs.thinkingmachines.ai/losses), and the papers below.
Knows tensors of log probabilities; no model.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class ScoredTokens:
    """The tokens of a micro-batch that a loss depends on, all sequences after one another.

    logprobs  (M,) float32: of each target, with gradient
    rows      (M,) int64: the sequence that each token belongs to, from 0
    num_rows  number of sequences
    inputs    (M,) float32 each
    """

    logprobs: Tensor
    rows: Tensor
    num_rows: int
    inputs: Mapping[str, Tensor]

    def sum_rows(self, values: Tensor) -> Tensor:
        """The sums (num_rows,) of values (M,) over each sequence."""
        return values.new_zeros(self.num_rows).index_add(0, self.rows, values)


Config = Mapping[str, float]
LossFunction = Callable[[ScoredTokens, Config], Tensor]


def cross_entropy(tokens: ScoredTokens, config: Config) -> Tensor:
    return -weighted_sum(tokens, tokens.logprobs)


def importance_sampling(tokens: ScoredTokens, config: Config) -> Tensor:
    return -weighted_sum(tokens, probability_ratio(tokens) * tokens.inputs["advantages"])


def ppo(tokens: ScoredTokens, config: Config) -> Tensor:
    """The clipped objective of PPO (Schulman et al. 2017, equation 7)."""
    return -weighted_sum(tokens, clipped(probability_ratio(tokens), tokens.inputs["advantages"], config))


def cispo(tokens: ScoredTokens, config: Config) -> Tensor:
    """Clipped importance weights (MiniMax-M1, 2025, equation 4): no token loses its gradient."""
    ratio = clip(probability_ratio(tokens).detach(), config)
    return -weighted_sum(tokens, ratio * tokens.logprobs * tokens.inputs["advantages"])


def dro(tokens: ScoredTokens, config: Config) -> Tensor:
    """Direct reward optimisation with the quadratic penalty (Richemond et al. 2024, equation 5)."""
    difference = tokens.logprobs - tokens.inputs["logprobs"]
    gain = tokens.logprobs * tokens.inputs["advantages"] - config["beta"] / 2 * difference.square()
    return -weighted_sum(tokens, gain)


def gspo(tokens: ScoredTokens, config: Config) -> Tensor:
    """Ratios of whole sequences (Zheng et al. 2025, GSPO-token, equations 7 and 13).

    The ratio of a sequence is the geometric mean over the tokens of sequence_ratio_mask. Its gradient goes to
    each token's own log probability.
    """
    mask = tokens.inputs["sequence_ratio_mask"]
    difference = tokens.sum_rows((tokens.logprobs - tokens.inputs["logprobs"]) * mask)
    ratio = (difference / tokens.sum_rows(mask).clamp(min=1)).exp().detach()[tokens.rows]
    ratio = ratio * (tokens.logprobs - tokens.logprobs.detach()).exp()
    return -weighted_sum(tokens, clipped(ratio, tokens.inputs["advantages"], config))


def weighted_sum(tokens: ScoredTokens, terms: Tensor) -> Tensor:
    """The sum of the terms (M,), each times the weight of its target."""
    return (tokens.inputs["weights"] * terms).sum()


def probability_ratio(tokens: ScoredTokens) -> Tensor:
    """p / q of each token: of this model to the one that sampled it."""
    return (tokens.logprobs - tokens.inputs["logprobs"]).exp()


def clipped(ratio: Tensor, advantages: Tensor, config: Config) -> Tensor:
    return torch.minimum(ratio * advantages, clip(ratio, config) * advantages)


def clip(ratio: Tensor, config: Config) -> Tensor:
    return ratio.clamp(config["clip_low_threshold"], config["clip_high_threshold"])
