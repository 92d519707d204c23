"""Losses of preferred and rejected completions: sums over pairs, or over single rated completions.

The weights of a sequence are 1 for the tokens of its completion, 0 for the others. Knows tensors of log
probabilities; no model.
"""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from tuning.trainer.losses.token_losses import Config, ScoredTokens

MAX_LOGPROB = -1e-6  # the odds of a completion of probability 1 would be infinite


def dpo(tokens: ScoredTokens, config: Config) -> Tensor:
    """DPO (Rafailov et al. 2023, equation 7)."""
    return -logsigmoid(config["beta"] * preference_margins(tokens)).sum() * config["scale"]


def dpo_hinge(tokens: ScoredTokens, config: Config) -> Tensor:
    """The hinge loss of SLiC (Zhao et al. 2023) on DPO's margin, as trl has it."""
    return torch.relu(1 - config["beta"] * preference_margins(tokens)).sum() * config["scale"]


def ipo(tokens: ScoredTokens, config: Config) -> Tensor:
    """IPO (Azar et al. 2023, equation 17), with means over the tokens of a completion, as trl has it."""
    rewards = completion_rewards(tokens) / completion_lengths(tokens)
    margins = rewards[0::2] - rewards[1::2]
    return (margins - 1 / (2 * config["beta"])).square().sum() * config["scale"]


def orpo(tokens: ScoredTokens, config: Config) -> Tensor:
    """ORPO (Hong et al. 2024, equations 6 and 7): needs no reference model."""
    weights = tokens.inputs["weights"]
    means = tokens.sum_rows(tokens.logprobs * weights) / completion_lengths(tokens)
    log_odds = means - log1mexp(means.clamp(max=MAX_LOGPROB))
    odds_ratio = -logsigmoid(log_odds[0::2] - log_odds[1::2])
    return (-means[0::2] + config["beta"] * odds_ratio).sum() * config["scale"]


def kto(tokens: ScoredTokens, config: Config) -> Tensor:
    """KTO (Ethayarajh et al. 2024, equation 8), with both λ 1.

    The weights of an undesirable completion are -1. config["kl"] is the reference point z0.
    """
    signed_rewards = completion_rewards(tokens)  # -r for an undesirable completion
    signs = tokens.sum_rows(tokens.inputs["weights"]).sign()
    values = torch.sigmoid(config["beta"] * (signed_rewards - signs * config["kl"]))
    return (1 - values).sum() * config["scale"]


def preference_margins(tokens: ScoredTokens) -> Tensor:
    """By pair (P,): how much more than the reference the model prefers the chosen completion."""
    rewards = completion_rewards(tokens)
    return rewards[0::2] - rewards[1::2]


def completion_rewards(tokens: ScoredTokens) -> Tensor:
    """By sequence: log π - log π_ref of its completion."""
    difference = tokens.logprobs - tokens.inputs["reference_logprobs"]
    return tokens.sum_rows(difference * tokens.inputs["weights"])


def completion_lengths(tokens: ScoredTokens) -> Tensor:
    return tokens.sum_rows(tokens.inputs["weights"].abs()).clamp(min=1)


def log1mexp(x: Tensor) -> Tensor:
    """log(1 - e^x) for x < 0."""
    return torch.log(-torch.expm1(x))
