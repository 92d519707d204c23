"""The table of losses: to add one, write its formula and add a row to LOSSES."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from inference.errors import BadRequest
from tuning.trainer.losses import preference_losses, token_losses
from tuning.trainer.losses.token_losses import LossFunction

PPO_CLIP = {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}
CISPO_CLIP = {"clip_low_threshold": 0.0, "clip_high_threshold": 4.0}
PREFERENCE = {"beta": 0.1, "scale": 1.0}
WEIGHTS = ("weights",)
SAMPLED = ("logprobs", "advantages", "weights")
SAMPLED_MASKS = ("advantages", "weights")
WEIGHTED = {"weights": 1.0}
COMPARED = ("weights", "reference_logprobs")


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss and what it needs.

    function    computes the sum
    inputs      names of the inputs that every datum must have, those of `absent` excepted
    masks       the inputs whose zeros say that a target changes nothing
    defaults    its config
    group_size  data that belong together and are computed in one pass: 2 for pairs
    absent      the number that each target of a datum has for an input that the datum lacks
    candidates  whether a place may have several targets
    is_per_token  each term of the sum depends on one target
    """

    function: LossFunction
    inputs: tuple[str, ...]
    masks: tuple[str, ...] = ()
    defaults: Mapping[str, float] = field(default_factory=dict)
    group_size: int = 1
    absent: Mapping[str, float] = field(default_factory=dict)
    candidates: bool = False
    is_per_token: bool = False


LOSSES: Mapping[str, Loss] = {
    "cross_entropy": Loss(
        token_losses.cross_entropy,
        WEIGHTS,
        WEIGHTS,
        absent=WEIGHTED,
        candidates=True,
        is_per_token=True,
    ),
    "importance_sampling": Loss(
        token_losses.importance_sampling,
        SAMPLED,
        SAMPLED_MASKS,
        absent=WEIGHTED,
        candidates=True,
        is_per_token=True,
    ),
    "ppo": Loss(token_losses.ppo, SAMPLED, SAMPLED_MASKS, PPO_CLIP, absent=WEIGHTED, is_per_token=True),
    "cispo": Loss(token_losses.cispo, SAMPLED, SAMPLED_MASKS, CISPO_CLIP, absent=WEIGHTED, is_per_token=True),
    "dro": Loss(token_losses.dro, SAMPLED, WEIGHTS, {"beta": 0.05}, absent=WEIGHTED, is_per_token=True),
    "gspo": Loss(token_losses.gspo, (*SAMPLED, "sequence_ratio_mask"), (), PPO_CLIP, absent=WEIGHTED),
    "dpo_sigmoid": Loss(preference_losses.dpo, COMPARED, WEIGHTS, PREFERENCE, 2),
    "dpo_hinge": Loss(preference_losses.dpo_hinge, COMPARED, WEIGHTS, PREFERENCE, 2),
    "dpo_ipo": Loss(preference_losses.ipo, COMPARED, WEIGHTS, PREFERENCE, 2),
    "orpo": Loss(preference_losses.orpo, WEIGHTS, WEIGHTS, PREFERENCE, 2),
    "kto": Loss(preference_losses.kto, COMPARED, WEIGHTS, {**PREFERENCE, "kl": 0.0}),
}


def find_loss(name: str) -> Loss:
    """Raises BadRequest for an unknown name."""
    if name not in LOSSES:
        raise BadRequest("loss_fn", f"must be one of {', '.join(LOSSES)}", name)
    return LOSSES[name]


def complete_config(loss: Loss, config: Mapping[str, float]) -> dict[str, float]:
    """The loss's config with its defaults. Raises BadRequest for a key that it does not have."""
    unknown = sorted(config.keys() - loss.defaults.keys())
    if unknown:
        names = ", ".join(loss.defaults) or "none"
        raise BadRequest(
            "loss_fn_config", f"has a key that this loss does not know; it has {names}", unknown[0]
        )
    return {**loss.defaults, **config}
