"""Which seat fits a model: proved at load by computing a few tokens each way, not read from a flag.

The worst case is slow, never wrong. Knows the seats and what they cost in memory.
"""

import logging
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from inference.errors import Unavailable
from inference.model.batch import Runner
from inference.model.rope import settle
from inference.model.slots import SlotRunner
from inference.model.solo import SoloRunner
from inference.model.sources import SourceRunner
from inference.model.trial import COLUMNS, ROWS, Trial

log = logging.getLogger(__name__)

# Least and most error allowed, in standard deviations of the true logits; in between, NOISE times what
# rounding makes of the model's own. A seat that is wrong is off by several; half precision hides small
# faults, but what is fit in float32 is fit in any.
ALLOWED = {torch.float16: (0.02, 1.0), torch.bfloat16: (0.1, 1.0)}
EXACT = (1e-3, 1e-3)
NOISE = 4

Way = tuple[bool, bool]  # (resumes, together) of a SlotRunner
# Ways to drive the slots seat, the fastest first, and what they are called in the log.
WAYS: dict[Way, str] = {
    (True, True): "slots, resumes",
    (False, True): "slots",
    (True, False): "slots a row at a time, resumes",
    (False, False): "slots a row at a time",
}


@dataclass(frozen=True, slots=True)
class Fitted:
    """A runner proved right for its model.

    seat             "slots" or "solo"
    error            the largest difference of a logit from the truth, in standard deviations of the logits
    bytes_per_token  memory that one column of one row takes
    """

    runner: Runner
    seat: str
    resumes: bool
    error: float
    bytes_per_token: int


def choose(
    model: PreTrainedModel,
    *,
    max_rows: int,
    context: int,
    kv_bytes: int,
    max_area: int | None = None,
    alone: bool = False,
) -> Fitted:
    """The fastest seat that computes what the model's own forward does, with memory of at most kv_bytes, and
    for at most max_area tokens. alone: of those that compute no two rows in one call.

    Takes about a second, more for a large model; the model computes as before afterwards, but for rotary
    frequencies that would change with length (rope.py). Raises Unavailable where the memory does not hold one
    row of the whole context, or the model's logits are not numbers.
    """
    for kind in set(settle(model, context)):
        log.info("%s: %s frequencies settled for %d tokens", model.config.model_type, kind, context)
    trial = tried(model)
    if trial.spread != trial.spread:
        raise Unavailable(
            "the model's logits are not numbers: its weights are damaged, or need another dtype"
        )
    least, most = ALLOWED.get(model.dtype, EXACT)
    tolerance = min(max(least, NOISE * trial.noise), most)
    causal = trial.noise <= most
    ways = [way for way in WAYS if causal and not (alone and way[1])]
    for way in ways:
        found = attempt(model, trial, way, tolerance)
        if found:
            most = max_rows * context if max_area is None else min(max_area, max_rows * context)
            return slots(model, *found, max_rows=max_rows, context=context, kv_bytes=kv_bytes, most=most)
    return solo(model, trial, causal, tolerance, max_rows=max_rows, context=context)


def tried(model: PreTrainedModel) -> Trial:
    try:
        return Trial(model)
    except torch.OutOfMemoryError:
        raise
    except Exception as raised:  # code of any model, some of which wants more than text
        told = " ".join(f"{type(raised).__name__}: {raised}".split())
        raise Unavailable(f"{model.config.model_type} does not compute from text alone: {told}") from raised


def attempt(
    model: PreTrainedModel, trial: Trial, way: Way, tolerance: float
) -> tuple[SlotRunner, float] | None:
    """The slots seat and its error; None where it does not compute the model rightly, the reason logged."""
    seat = SourceRunner if model.config.is_encoder_decoder else SlotRunner
    resumes, together = way
    try:
        runner = seat(
            model, max_rows=ROWS, context=COLUMNS, area=ROWS * COLUMNS, resumes=resumes, together=together
        )
        error = trial.error(runner)
        if error <= tolerance:
            return runner, error
        reason = f"error {error:.0e}"
    except torch.OutOfMemoryError:
        raise
    except Exception as raised:  # code of any model, driven in a way it may not be made for
        reason = f"{type(raised).__name__}: {raised}"
    log.info("%s: not %s: %s", model.config.model_type, WAYS[way], reason)
    return None


def slots(
    model: PreTrainedModel,
    tried: SlotRunner,
    error: float,
    *,
    max_rows: int,
    context: int,
    kv_bytes: int,
    most: int,
) -> Fitted:
    """The seat that was tried, with as much memory as it may have: for `most` tokens at most."""
    per_token, per_row = tried.memory.bytes_per_column(), tried.memory.bytes_per_row()
    if tried.encodes:  # a source's tokens take what the answer's do
        per_token, per_row = 2 * per_token, 0
    per_token = max(per_token, 1)
    left = kv_bytes - per_row * max_rows
    if left < per_token * context:
        needs = (per_row * max_rows + per_token * context) / 2**20
        raise Unavailable(
            f"one sequence of the whole context, {context} tokens, needs {needs:.0f} MiB of memory besides "
            f"the model; {kv_bytes / 2**20:.0f} MiB are left: lower the context, or max_rows ({max_rows})"
        )
    area = min(most, left // per_token)
    way = {"resumes": tried.resumes, "together": tried.together}
    runner = type(tried)(model, max_rows=max_rows, context=context, area=area, **way)
    return chosen(model, Fitted(runner, "slots", tried.resumes, error, per_token))


def solo(
    model: PreTrainedModel, trial: Trial, causal: bool, tolerance: float, *, max_rows: int, context: int
) -> Fitted:
    """The solo seat, which is the truth unless the model remembers what it computed before."""
    error = trial.error(SoloRunner(model, max_rows=ROWS, context=COLUMNS)) if causal else 0.0
    if not error <= tolerance:
        raise Unavailable(f"{model.config.model_type} computes something else each time it is asked")
    if not causal and trial.remembers() > tolerance:
        raise Unavailable(f"{model.config.model_type} computes something else with a cache than without")
    runner = SoloRunner(model, max_rows=max_rows, context=context, causal=causal)
    return chosen(model, Fitted(runner, "solo", True, error, 0))


def chosen(model: PreTrainedModel, fitted: Fitted) -> Fitted:
    runner = fitted.runner
    name = WAYS[runner.resumes, runner.together] if isinstance(runner, SlotRunner) else fitted.seat
    log.info("%s: %s, error %.0e", model.config.model_type, name, fitted.error)
    return fitted
