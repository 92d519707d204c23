"""The model as it will compute, and what is right for it: layers joined on CUDA, weights held by native
matrices on a CPU. Each is proved against the model's own forward, and undone where it is wrong.

Knows trials; not the seats that are judged by them.
"""

from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from inference.errors import Unavailable, named
from inference.model import fuse
from inference.model.trial import Trial
from inference.model.weights import hold
from inference.model.weights.kinds import NONE
from inference.model.weights.loss import Loss

# Least and most error allowed, in standard deviations of the true logits; in between, NOISE times what
# rounding makes of the model's own. A seat that is wrong is off by several; half precision hides small
# faults, but what is fit in float32 is fit in any. What quantised weights are multiplied with is rounded to
# 8 bits, which makes a larger difference of a small one.
ALLOWED = {torch.float16: (0.02, 1.0), torch.bfloat16: (0.1, 1.0)}
EXACT = (1e-3, 1e-3)
QUANTISED = (0.1, 1.0)
NOISE = 4


@dataclass(frozen=True, slots=True)
class Ready:
    """trial      what is right
    tolerance  the error that is allowed, in standard deviations of the logits
    causal     no logit depends on later tokens
    loss       what quantising has cost; None where the weights are those of the files
    """

    trial: Trial
    tolerance: float
    causal: bool
    loss: Loss | None


def ready(model: PreTrainedModel, quantise: str, *, timed: bool, asked: bool) -> Ready:
    """Change the model's weights as it is best for them. Raises Unavailable.

    timed: the clock may decide. asked: somebody needs native matrices, whatever the clock says.
    """
    trial, loss = tried(model), None
    if trial.spread != trial.spread:
        raise Unavailable(
            "the model's logits are not numbers: its weights are damaged, or need another dtype"
        )
    if quantise != NONE:
        trial, loss = hold.quantise(model, trial, quantise)
    least, most = QUANTISED if loss else ALLOWED.get(model.dtype, EXACT)
    tolerance = min(max(least, NOISE * trial.noise), most)
    if model.device.type == "cuda":
        fuse.proved(model, trial, tolerance)
    elif timed and not loss:
        hold.hold(model, trial, tolerance, asked=asked)
    return Ready(trial, tolerance, trial.noise <= most, loss)


def tried(model: PreTrainedModel) -> Trial:
    try:
        return Trial(model)
    except torch.OutOfMemoryError:
        raise
    except Exception as raised:  # code of any model, some of which wants more than text
        told = named(raised, 400)
        raise Unavailable(f"{model.config.model_type} does not compute from text alone: {told}") from raised
