"""Which seat fits a model: proved at load by computing a few tokens each way, not read from a flag; and where
several are right, chosen by the clock.

The worst case is slow, never wrong. Knows the seats as runners.
"""

import logging
from collections.abc import Container
from dataclasses import dataclass, replace

import torch
from transformers import PreTrainedModel

from inference.errors import Unavailable
from inference.model import race
from inference.model.batch import Runner
from inference.model.ready import ready
from inference.model.rope import settle
from inference.model.seats import Seat, fusable, seats
from inference.model.solo import SoloRunner
from inference.model.trial import COLUMNS, ROWS, Trial
from inference.model.unfit import Unfit
from inference.model.weights.kinds import NONE
from inference.model.weights.loss import Loss

log = logging.getLogger(__name__)

KINDS = ("fused", "packed", "slots", "solo")


@dataclass(frozen=True, slots=True)
class Fitted:
    """A runner proved right for its model.

    seat             its kind, one of KINDS; `name` says more
    error            the largest difference of a logit from the truth, in standard deviations of the logits
    bytes_per_token  memory that one token takes; bytes_per_row what a row takes besides
    loss             what quantising has cost; None where the weights are those of the files
    """

    runner: Runner
    seat: str
    name: str
    resumes: bool
    error: float
    bytes_per_token: int
    bytes_per_row: int = 0
    loss: Loss | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A seat that computes rightly, with the runner that showed it."""

    seat: Seat
    runner: Runner
    error: float


def choose(
    model: PreTrainedModel,
    *,
    max_rows: int,
    context: int,
    kv_bytes: int,
    max_area: int | None = None,
    quantise: str = NONE,
    alone: bool = False,
    kinds: Container[str] = KINDS,
    timed: bool = True,
) -> Fitted:
    """The fastest seat that computes what the model's own forward does, with memory of at most kv_bytes, and
    for at most max_area tokens.

    quantise: "none", or how the weights are kept in fewer bits. alone: of those where what is computed beside
    a row changes no bit of it. kinds: of those alone. Not timed: the first that is right, whatever the clock
    says.
    Takes about a second, more for a large model; the model computes as before afterwards, but for rotary
    frequencies that would change with length (rope.py), and for what is in ready.py. Raises Unavailable where
    the memory does not hold one row of the whole context, the model's logits are not numbers, or it cannot be
    quantised.
    """
    for kind in set(settle(model, context)):
        log.info("%s: %s frequencies settled for %d tokens", model.config.model_type, kind, context)
    made = ready(model, quantise, timed=timed, asked="fused" in kinds and fusable(model))
    trial, tolerance, causal = made.trial, made.tolerance, made.causal
    found: dict[str, Found] = {}
    for seat in seats(model, context, alone, tolerance) if causal else ():
        if seat.kind in kinds and seat.kind not in found and (timed or not found):
            found |= attempt(model, trial, seat, tolerance)
            if timed and seat.kind in found and decides(found[seat.kind], trial):
                break
    if not found:
        if "solo" not in kinds:
            raise Unavailable(
                f'{model.config.model_type} is computed wrongly in the SEAT asked for: let it be "auto"'
            )
        lone = solo(model, trial, causal, tolerance, max_rows=max_rows, context=context)
        return replace(lone, loss=made.loss)
    best = fastest(model, trial, list(found.values()), context)
    fitted = sized(model, best, max_rows=max_rows, context=context, kv_bytes=kv_bytes, max_area=max_area)
    return replace(fitted, loss=made.loss)


def decides(found: Found, trial: Trial) -> bool:
    """Whether the seats behind can gain nothing, nor are worth the time to try them."""
    return found.runner.paged and race.step_s(found.runner, COLUMNS, trial.ids) > found.seat.slow_s


def attempt(model: PreTrainedModel, trial: Trial, seat: Seat, tolerance: float) -> dict[str, Found]:
    """The seat, by its kind; nothing where it does not compute the model rightly, the reason logged."""
    try:
        runner = seat.make(max_rows=ROWS, context=COLUMNS, area=ROWS * COLUMNS)
        error = trial.error(runner)
        if error <= tolerance:
            return {seat.kind: Found(seat, runner, error)}
        reason = f"error {error:.0e}"
    except torch.OutOfMemoryError:
        raise
    except Unfit as lacks:
        reason = str(lacks)
    except Exception as raised:  # code of any model, driven in a way it may not be made for
        reason = f"{type(raised).__name__}: {raised}"
    log.info("%s: not %s: %s", model.config.model_type, seat.name, reason)
    return {}


def fastest(model: PreTrainedModel, trial: Trial, found: list[Found], context: int) -> Found:
    """Of two, the first unless the other is clearly faster."""
    best, *others = found
    for other in others:
        ratio = race.ratio(best.seat.make, other.seat.make, trial.ids, context)
        log.info(
            "%s: %s × the speed of %s: %.2f", model.config.model_type, best.seat.name, other.seat.name, ratio
        )
        best = best if ratio >= race.TIE else other
    return best


def sized(
    model: PreTrainedModel,
    found: Found,
    *,
    max_rows: int,
    context: int,
    kv_bytes: int,
    max_area: int | None,
) -> Fitted:
    """The seat that was tried, with as much memory as it may have: the whole context for each row at most."""
    per_token, per_row = found.seat.cost(found.runner)
    left = kv_bytes - per_row * max_rows
    if left < per_token * context:
        needs = (per_row * max_rows + per_token * context) / 2**20
        raise Unavailable(
            f"one sequence of the whole context, {context} tokens, needs {needs:.0f} MiB of memory besides "
            f"the model; {kv_bytes / 2**20:.0f} MiB are left: lower the context, or max_rows ({max_rows})"
        )
    page = found.runner.step if found.runner.paged else 1
    most = max_rows * -(-context // page) * page  # a row's last page may be no full one
    holds = left // per_token if per_token else most
    area = min(most, holds, max_area or most)
    runner = found.seat.make(max_rows=max_rows, context=context, area=area)
    seat = found.seat
    fitted = Fitted(runner, seat.kind, seat.name, runner.resumes, found.error, per_token, per_row)
    return told(model, fitted)


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
    return told(model, Fitted(runner, "solo", "solo", True, error, 0))


def told(model: PreTrainedModel, fitted: Fitted) -> Fitted:
    log.info("%s: %s, error %.0e", model.config.model_type, fitted.name, fitted.error)
    return fitted
