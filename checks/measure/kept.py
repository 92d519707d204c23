"""What a sequence keeps while it is answered, asked of the seats themselves: they run a model without values.

Knows the seats and what they cost. What they keep is not what transformers would: a layer with a window keeps
all tokens here, and the packed seat has keys and values as attention is given them.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from checks.measure.blind import Blind
from checks.measure.repeats import Way, computing, repeating
from inference.model.batch import Batch, Shape
from inference.model.fused.anatomy import parts_of
from inference.model.packed.runner import PackedRunner
from inference.model.seats import packed_cost, slots_cost
from inference.model.slots.runner import SlotRunner
from inference.model.slots.sources import SourceRunner
from inference.model.unfit import Unfit

COLUMNS = 64
PROMPT = 5  # tokens: more than one, and no round number that could be a size of the model's
EXPERTS = "batched_mm"  # computes the experts of any dtype, and looks at no value

AUTO, FUSED, PACKED, SLOTS, SOLO = "auto", "fused", "packed", "slots", "solo"  # what SEAT may be

Cost = tuple[int, int]


def kept(model: Any, seat: str = AUTO, alone: bool = False) -> Cost | None:
    """Bytes that a sequence takes for each token, and besides; (0, 0) where every seat refuses the model, so
    that it is computed anew each time; None where that cannot be found out without values.

    `seat` is the one that is asked for; `alone`: only those where rows change no bit of each other. The
    model, on the meta device in the dtype it computes in, is not to be used for anything else afterwards.
    """
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation(EXPERTS)
    refused = True
    for cost in costs(model, seat, alone):
        found = asked(cost)
        if isinstance(found, tuple):
            return found
        refused &= found is not None
    return (0, 0) if refused else None


def refusal(model: Any, seat: str, alone: bool = False) -> str:
    """Why the seat that is asked for, no "auto", refuses the model, as of `kept`; empty where it does not."""
    reason = ""
    for cost in costs(model, seat, alone):
        found = asked(cost)
        if not isinstance(found, str):
            return ""
        reason = reason or found
    return reason


def asked(cost: Callable[[Way], Cost]) -> Cost | str | None:
    """What a seat keeps, or why it refuses the model; None where that takes values."""
    found: str | None = None
    for way in (repeating, computing):
        try:
            with Blind():
                return cost(way)
        except Unfit as lacks:
            found = str(lacks)
        except Exception:  # its code looks at values, or is not made for the seat
            found = None
    return found


class Added:
    """What a runner keeps of the layers that it has computed, and of those that are like them."""

    def __init__(self, cost: Callable[[], Cost]) -> None:
        self.cost = cost
        self.token = self.row = 0

    def mark(self) -> Cost:
        return self.cost()

    def took(self, mark: Cost, left: int) -> Cost:
        token, row = self.cost()
        return token - mark[0], row - mark[1]

    def again(self, took: Cost) -> None:
        self.token += took[0]
        self.row += took[1]

    def whole(self) -> Cost:
        token, row = self.cost()
        return token + self.token, row + self.row


def costs(model: Any, seat: str, alone: bool) -> Iterator[Callable[[Way], Cost]]:
    """Of each seat that may be taken, the one that is tried first at load before the others. What the fused
    one keeps, the packed one does, and of the models that it takes the slots do, too."""
    if seat == FUSED:
        yield partial(fused, model)
    if seat == PACKED or (seat == AUTO and not alone):
        yield partial(packed, model)
    if seat in (AUTO, SLOTS):
        yield from (partial(slots, model, resumes, not alone) for resumes in (True, False))


def fused(model: Any, way: Way) -> Cost:
    try:
        parts_of(model)
    except (AttributeError, NotImplementedError) as lacks:  # of a model that does not name its parts
        raise Unfit(str(lacks)) from lacks
    return packed(model, way)


def packed(model: Any, way: Way) -> Cost:
    runner = PackedRunner(model, max_rows=1, context=COLUMNS, area=COLUMNS)
    added = Added(partial(packed_cost, runner))
    with way(model, added):
        runner.probe()
    return added.whole()


def slots(model: Any, resumes: bool, together: bool = True, way: Way = computing) -> Cost:
    kind = SourceRunner if model.config.is_encoder_decoder else SlotRunner
    runner = kind(model, max_rows=1, context=COLUMNS, area=COLUMNS, resumes=resumes, together=together)
    added = Added(partial(slots_cost, runner))
    prompt = tuple(range(PROMPT))
    with way(model, added):
        runner.forward(
            Batch(
                ids=prompt,
                starts=(0, PROMPT),
                cached=(0,),
                rows=(0,),
                want=(PROMPT - 1,),
                moves=(Shape(1, COLUMNS),),
                sources={0: prompt} if runner.encodes else {},
            )
        )
    return added.whole()
