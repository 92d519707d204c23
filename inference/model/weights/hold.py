"""Native matrices take over a model's weights, as they are or quantised: proved, and undone where wrong.

Knows trials and logs; how weights are found, kept and timed stands in the other files.
"""

import logging
import time

from transformers import PreTrainedModel

from inference.errors import Unavailable
from inference.model.fuse import departure
from inference.model.trial import COLUMNS, Trial
from inference.model.weights.kinds import NONE
from inference.model.weights.loss import Loss, loss
from inference.model.weights.pays import pays
from inference.model.weights.swap import Pack, Swapped, swap, undo
from inference.model.weights.weight import Plainly
from inference.native.build import Unbuilt
from inference.native.matrix import Matrix, ready

log = logging.getLogger(__name__)

LEAST = 1 << 22  # bytes of weights: a smaller model is left as it is, unless it is asked for
WILD = 1.0  # largest change of a logit, in standard deviations, that is not told as a warning
# How far native products of quantised weights may be from those of torch, typically: what they are given
# is rounded to 8 bits. A fault makes other logits of them, which are off by 1.4.
WRONG = 0.5


def hold(model: PreTrainedModel, trial: Trial, tolerance: float, *, asked: bool = False) -> bool:
    """Have native matrices hold the weights in their own dtype, if that is right, and faster or asked for.

    What cannot be so is logged, and the model is as it was.
    """
    if not (asked or sum(weight.nbytes for weight in model.parameters()) >= LEAST):
        return False
    try:
        ready()
    except Unbuilt as reason:
        log.info("%s: torch's own products: %s", model.config.model_type, reason)
        return False
    if not (asked or pays(model, Matrix.pack)):
        return False
    swaps = packed(model, NONE, Matrix.pack)
    error = departure(trial)
    if not error <= tolerance:
        undo(swaps)
        log.info("%s: not in native products: error %.0e", model.config.model_type, error)
        return False
    restore(model, swaps)
    return True


def quantise(model: PreTrainedModel, trial: Trial, kind: str) -> tuple[Trial, Loss]:
    """Quantise the weights: the trial by which the model is judged from now on, and what it has lost.

    What is right for a quantised model is what it computes itself, with its weights as they are now. Its
    products are compared with torch's on the same weights, unpacked: that tells a fault from what rounding
    the weights has cost. Raises Unavailable where they cannot be computed, or are wrong.
    """
    name = model.config.model_type
    try:
        ready()
    except Unbuilt as reason:
        raise Unavailable(f"QUANTISE={kind} has no kernels here: {reason}; set QUANTISE=none") from reason
    swaps = packed(model, kind, Matrix.pack)
    after = Trial(model)
    restore(model, swaps)
    lost = loss(trial.truths, after.truths)
    with Plainly():
        off = loss([after.truth(0, COLUMNS)], after.truths[:1]).typical
    if not off <= WRONG:
        raise Unavailable(
            f"{name} is computed wrongly with QUANTISE={kind}, by {off:.1f} sd: set QUANTISE=none"
        )
    told = log.warning if lost.largest > WILD else log.info
    told("%s: %s: %s; native products are off by %.3f sd", name, kind, lost, off)
    return after, lost


def packed(model: PreTrainedModel, kind: str, pack: Pack) -> list[Swapped]:
    began = time.perf_counter()
    swaps = swap(model, kind, pack)
    told = f"{len(swaps)} weights in native matrices, {time.perf_counter() - began:.1f} s"
    log.info("%s: %s", model.config.model_type, told)
    return swaps


def restore(model: PreTrainedModel, swaps: list[Swapped]) -> None:
    """Those whose values a forward has asked for are tensors again: to unpack them in each step is slow. The
    list is empty then, so that nothing is held twice."""
    asked = [each for each in swaps if each.weight.unpacked]
    swaps.clear()
    if asked:
        log.info("%s: %d weights are used otherwise than in products", model.config.model_type, len(asked))
        undo(asked)
