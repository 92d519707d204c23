"""Which numbers a request may hold. Knows plain values only.

The original refuses most of what is refused here, and goes on with nonsense for the rest.
"""

import math
from typing import Any

from api.neodim.bodies import Body
from inference.errors import BadRequest

MAX_SEQUENCES = 64
WHOLE = 2**31 - 1
EXACT = 2**53  # beyond it, a float skips whole numbers

# Lowest and highest. 0 means none, or that something is off.
RANGES: dict[str, tuple[float, float]] = {
    "generated_tokens_count": (0, EXACT),
    "max_total_tokens": (0, EXACT),
    "sequences_count": (1, MAX_SEQUENCES),
    "stop_strings_required_matches_count": (0, WHOLE),
    "temperature": (0, 100),
    "top_k": (0, WHOLE),
    "top_p": (0, math.inf),
    "typical": (0, math.inf),
    "tfs": (0, 1),
    "top_a": (0, 1),
    "penalty_alpha": (0, 1),
    "repetition_penalty": (0, 100),
    "repetition_penalty_range": (0, EXACT),
    "repetition_penalty_slope": (0, 1e6),
    "no_repeat_ngram_size": (0, WHOLE),
}
SEED = (-(2**63), 2**63 - 1)


def check(body: Body) -> None:
    """Raise BadRequest for the first number out of its range."""
    for field, (low, high) in {**RANGES, "seed": SEED}.items():
        value: Any = getattr(body, field)
        if value is not None and not low <= value <= high:
            edge = f"must be between {low} and {high}" if high < math.inf else f"must be at least {low}"
            raise BadRequest(field, edge, value)
    if body.penalty_alpha and (body.top_k or 0) < 2:
        raise BadRequest("penalty_alpha", "needs a top_k of at least 2: it chooses among so many", body.top_k)
