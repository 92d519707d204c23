"""Who computes a model's step on a CPU, native code alone or torch; and what of the weights is packed to see
which products torch's is given.

Knows which weights are timed, and when none is.
"""

from typing import Any

from checks.measure.kept import AUTO, FUSED
from inference.model.seats import fusable
from inference.model.weights.found import find
from inference.model.weights.pays import sample_of


def fused(model: Any, seat: str = AUTO) -> bool:
    """Whether the fused seat may be taken: all weights are packed then, and none is timed."""
    return seat in (AUTO, FUSED) and fusable(model)


def sampled(model: Any) -> int:
    """Bytes of the weights that are packed besides and timed, of a model on the meta device."""
    return sum(found.weight.nbytes for found in sample_of(list(find(model, "meta"))))
