"""The ways to run a model, the fastest of each kind first. Which of them computes it rightly is for fit.py.

Knows the seats and what they cost in memory.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

from transformers import PreTrainedModel

from inference.model.batch import Runner
from inference.model.fused.anatomy import parts_of
from inference.model.fused.far import far_error
from inference.model.fused.reader import read
from inference.model.fused.reading import Reading
from inference.model.fused.runner import FusedRunner
from inference.model.packed import cuda
from inference.model.packed.graphs import GraphRunner
from inference.model.packed.kernels.choose import Chosen, choose_kernel
from inference.model.packed.runner import SIZE, PackedRunner
from inference.model.race import ROWS, SLOW_S
from inference.model.slots.runner import SlotRunner
from inference.model.slots.sources import SourceRunner
from inference.model.trial import ordinary_ids
from inference.model.unfit import Unfit
from inference.native.build import Unbuilt

Way = tuple[bool, bool]  # (resumes, together) of a SlotRunner
WAYS: dict[Way, str] = {
    (True, True): "slots, resumes",
    (False, True): "slots",
    (True, False): "slots a row at a time, resumes",
    (False, False): "slots a row at a time",
}

# Kinds that compute a row's logits to the last bit alike, in whatever pieces, whatever is computed beside it.
STEADY = frozenset({"fused"})
SLOW_FUSED_S = 0.01  # what the others take besides the passage of the weights is more than it takes


class Seat(NamedTuple):
    """A way to run a model.

    kind    "fused", "packed" or "slots"
    name    what it is called in the log
    make    a runner of this kind, for max_rows, context and area; raises Unfit
    cost    bytes that a token, and a row besides, take in the memory of a runner that has computed
    slow_s  where it is right and a step of one token takes so long, the seats behind it can gain nothing
    """

    kind: str
    name: str
    make: Callable[..., Runner]
    cost: Callable[[Any], tuple[int, int]]
    slow_s: float = SLOW_S


def seats(model: PreTrainedModel, context: int, alone: bool, tolerance: float) -> Iterator[Seat]:
    """The seats to try, for sequences of at most `context` tokens.

    alone: those where rows change no bit of each other. tolerance: by how much two ways to compute a step
    may differ, in standard deviations of the logits.
    """
    if model.device.type == "cpu":
        reading = cache(partial(proved, model, context, tolerance))
        yield Seat("fused", "fused", partial(fused, model, reading), packed_cost, SLOW_FUSED_S)
    if not alone:
        chosen = cache(partial(choose_kernel, model))  # when it is first asked for, as it may raise Unfit
        yield Seat("packed", "packed", partial(packed, model, chosen, tolerance), packed_cost)
    kind = SourceRunner if model.config.is_encoder_decoder else SlotRunner
    for (resumes, together), name in WAYS.items():
        if not (alone and together):
            make = partial(kind, model, resumes=resumes, together=together)
            yield Seat("slots", name, make, slots_cost)


def fusable(model: PreTrainedModel) -> bool:
    """Whether the fused seat may be right for the model, once native matrices on a CPU hold its weights."""
    try:
        parts_of(model)
    except (Unfit, AttributeError, NotImplementedError):
        return False
    return True


def fused(
    model: PreTrainedModel, reading: Callable[[], Reading], *, max_rows: int, context: int, area: int
) -> FusedRunner:
    return FusedRunner(
        model, reading(), max_rows=max_rows, context=min(context, area), area=max(area, least(max_rows, SIZE))
    )


def proved(model: PreTrainedModel, context: int, tolerance: float) -> Reading:
    """What native code is to know of the model, right up to the end of the context. Raises Unfit."""
    try:
        reading = read(model, context)
    except Unbuilt as reason:
        raise Unfit(str(reason)) from reason
    error = far_error(model, reading, ordinary_ids(model), context)
    if not error <= tolerance:
        raise Unfit(f"error {error:.0e} at the end of the context")
    return reading


def packed(
    model: PreTrainedModel,
    chosen: Callable[[], Chosen],
    tolerance: float,
    *,
    max_rows: int,
    context: int,
    area: int,
) -> PackedRunner:
    """Its steps are recorded, where the device and the kernel allow that."""
    kernel = chosen()
    recorder = cuda.recorder(model) if kernel.captures else None
    kind = PackedRunner if recorder is None else GraphRunner
    runner = kind(
        model,
        max_rows=max_rows,
        context=min(context, area),
        area=max(area, least(max_rows, kernel.size)),
        size=kernel.size,
        kernel=kernel.kernel,
        overlaps=cuda.alone(model),
    )
    runner.probe()
    if isinstance(runner, GraphRunner) and recorder is not None:
        runner.record(recorder, tolerance)
    return runner


def least(max_rows: int, page: int) -> int:
    """Tokens of a page for each row of a trial or a race; the rows of an engine wait until pages are free."""
    return min(max_rows, ROWS) * page


def packed_cost(runner: PackedRunner) -> tuple[int, int]:
    return runner.pool.bytes_per_token(), 0


def slots_cost(runner: SlotRunner) -> tuple[int, int]:
    per_token, per_row = runner.memory.bytes_per_column(), runner.memory.bytes_per_row()
    # A source's tokens take what the answer's do.
    return (2 * per_token, 0) if runner.encodes else (per_token, per_row)
