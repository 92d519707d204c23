"""What is packed of a model besides its weights, while it is timed whether native products pay.

Knows which of the weights are timed, and when they are not.
"""

from typing import Any

from checks.measure.kept import AUTO, FUSED
from inference.model.seats import fusable
from inference.model.weights.found import find
from inference.model.weights.pays import sample_of


def sampled(model: Any, seat: str = AUTO) -> int:
    """Bytes, of a model on the meta device; none where the fused seat may be taken: all is packed then, and
    nothing timed."""
    if seat in (AUTO, FUSED) and fusable(model):
        return 0
    return sum(found.weight.nbytes for found in sample_of(list(find(model, "meta"))))
