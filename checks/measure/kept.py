"""What a sequence keeps while it is answered, asked of the seats themselves: they run a model without values.

Knows the seats and what they cost. What they keep is not what transformers would: a layer with a window keeps
all tokens here, and the packed seat has keys and values as attention is given them.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from checks.measure.blind import Blind
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
        try:
            with Blind():
                return cost()
        except Unfit:
            continue
        except Exception:  # its code looks at values, or is not made for the seat
            refused = False
    return (0, 0) if refused else None


def costs(model: Any, seat: str, alone: bool) -> Iterator[Callable[[], Cost]]:
    """Of each seat, the one that is tried first at load before the others. What the fused one keeps, the
    packed one does, and of the models that it takes the slots do, too."""
    if seat == SOLO:
        return
    if seat == FUSED or not (alone or seat == SLOTS):
        yield partial(packed, model)
    yield from (partial(slots, model, resumes, together=not alone) for resumes in (True, False))


def packed(model: Any) -> Cost:
    runner = PackedRunner(model, max_rows=1, context=COLUMNS, area=COLUMNS)
    runner.probe()
    return packed_cost(runner)


def slots(model: Any, resumes: bool, together: bool) -> Cost:
    kind = SourceRunner if model.config.is_encoder_decoder else SlotRunner
    runner = kind(model, max_rows=1, context=COLUMNS, area=COLUMNS, resumes=resumes, together=together)
    prompt = tuple(range(PROMPT))
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
    return slots_cost(runner)
