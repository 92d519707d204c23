"""What reshapes a whole distribution: the warpers, by name, in their usual order.

A warper maps logits (n, V) and one value per row to new logits; a token it removes becomes -inf, and one is
always left. Knows neither sequences nor requests: the names are fields of Sampling.
"""

from collections.abc import Callable
from collections.abc import Sequence as Values
from typing import NamedTuple

from torch import Tensor

from inference.engine.cells import GONE, column
from inference.engine.cuts import tfs, top_p, typical_p

# Between these no logit overflows and -inf stays -inf; the cold end drowns the noise: what is left is argmax.
COLDEST, HOTTEST = 1e-20, 1e20


class Warper(NamedTuple):
    warp: Callable[[Tensor, Values[float]], Tensor]
    neutral: float


def temperature(logits: Tensor, values: Values[float]) -> Tensor:
    return logits / column(values, logits).clamp(COLDEST, HOTTEST)


def top_k(logits: Tensor, values: Values[float]) -> Tensor:
    """Keep the k most probable tokens, and what ties with the last of them."""
    counts = [min(int(value), logits.shape[1]) for value in values]
    largest = logits.topk(max(counts), dim=-1).values
    last = column([count - 1 for count in counts], logits).long()
    return logits.masked_fill(logits < largest.gather(1, last), GONE)


def min_p(logits: Tensor, values: Values[float]) -> Tensor:
    """Keep what is at least min_p times as probable as the most probable token.

    Nguyen et al., "Turning Up the Heat: Min-p Sampling" (2024), section 3.
    """
    probs = logits.softmax(-1)
    return logits.masked_fill(probs < column(values, logits) * probs.amax(-1, keepdim=True), GONE)


def top_a(logits: Tensor, values: Values[float]) -> Tensor:
    """Remove what is less probable than top_a times the square of the most probable token.

    BlinkDL's RWKV-LM, README, "top-a sampling".
    """
    probs = logits.softmax(-1)
    return logits.masked_fill(probs < column(values, logits) * probs.amax(-1, keepdim=True).square(), GONE)


# The name of a field of Sampling → its warper; the order is transformers', and fits TGI's and Neodim's.
WARPERS = {
    "temperature": Warper(temperature, 1.0),
    "top_k": Warper(top_k, 0),
    "top_p": Warper(top_p, 1.0),
    "min_p": Warper(min_p, 0.0),
    "typical_p": Warper(typical_p, 1.0),
    "tfs": Warper(tfs, 0.0),
    "top_a": Warper(top_a, 0.0),
}
