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
from inference.model.packed.runner import PackedRunner
from inference.model.seats import packed_cost, slots_cost
from inference.model.slots.runner import SlotRunner
from inference.model.slots.sources import SourceRunner
from inference.model.unfit import Unfit

COLUMNS = 64
PROMPT = 5  # tokens: more than one, and no round number that could be a size of the model's
EXPERTS = "batched_mm"  # computes the experts of any dtype, and looks at no value

AUTO, FUSED, SLOTS, SOLO = "auto", "fused", "slots", "solo"  # of what SEAT may be

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
        for way in (repeating, computing):
            try:
                with Blind():
                    return cost(way)
            except Unfit:
                unfit = True
            except Exception:  # its code looks at values, or is not made for the seat
                unfit = False
        refused &= unfit
    return (0, 0) if refused else None


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
    """Of each seat, the one that is tried first at load before the others. What the fused one keeps, the
    packed one does, and of the models that it takes the slots do, too."""
    if seat == SOLO:
        return
    if seat == FUSED or not (alone or seat == SLOTS):
        yield partial(packed, model)
    yield from (partial(slots, model, resumes, not alone) for resumes in (True, False))


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
