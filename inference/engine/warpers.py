"""What reshapes a whole distribution: temperature, top-k, top-p, min-p, in that order.

A warper maps logits (n, V) and one value per row to new logits; a token it removes becomes -inf.
Knows neither sequences nor requests: the names are fields of Sampling.
"""

from collections.abc import Callable
from collections.abc import Sequence as Values
from typing import NamedTuple

import torch
from torch import Tensor

GONE = float("-inf")
# Between these no logit overflows and -inf stays -inf; the cold end drowns the noise: what is left is argmax.
COLDEST, HOTTEST = 1e-20, 1e20
# A CPU sorts 150,000 numbers in 15 ms and finds the largest 1,024 in 0.6 ms: mostly these hold the nucleus.
HEAD = 1024


class Warper(NamedTuple):
    warp: Callable[[Tensor, Values[float]], Tensor]
    neutral: float


def temperature(logits: Tensor, values: Values[float]) -> Tensor:
    return logits / _column(values, logits).clamp(COLDEST, HOTTEST)


def top_k(logits: Tensor, values: Values[float]) -> Tensor:
    """Keep the k most probable tokens, and what ties with the last of them."""
    counts = [min(int(value), logits.shape[1]) for value in values]
    largest = logits.topk(max(counts), dim=-1).values
    last = _column([count - 1 for count in counts], logits).long()
    return logits.masked_fill(logits < largest.gather(1, last), GONE)


def top_p(logits: Tensor, values: Values[float]) -> Tensor:
    """Keep the smallest set of most probable tokens that holds p, and what ties with the last of them.

    Holtzman et al., "The Curious Case of Neural Text Degeneration" (2020), equation 2.
    """
    probs = logits.softmax(-1)
    find = _least_of_head if logits.device.type == "cpu" else _least
    return logits.masked_fill(probs < find(probs, _column(values, logits)), GONE)


def min_p(logits: Tensor, values: Values[float]) -> Tensor:
    """Keep what is at least min_p times as probable as the most probable token.

    Nguyen et al., "Turning Up the Heat: Min-p Sampling" (2024), section 3.
    """
    probs = logits.softmax(-1)
    return logits.masked_fill(probs < _column(values, logits) * probs.amax(-1, keepdim=True), GONE)


# The name of a field of Sampling → its warper; the order is transformers' and vLLM's.
WARPERS = {
    "temperature": Warper(temperature, 1.0),
    "top_k": Warper(top_k, 0),
    "top_p": Warper(top_p, 1.0),
    "min_p": Warper(min_p, 0.0),
}


def _column(values: Values[float], like: Tensor) -> Tensor:
    """One value per row, (n, 1), on the device of `like`."""
    return torch.tensor(values, dtype=torch.float32)[:, None].to(like.device, non_blocking=True)


def _least(probs: Tensor, mass: Tensor) -> Tensor:
    """The smallest probability (n, 1) in each row's nucleus."""
    ranked = probs.sort(-1, descending=True).values
    return ranked.gather(1, _nucleus(ranked, mass) - 1)


def _least_of_head(probs: Tensor, mass: Tensor) -> Tensor:
    """The same, sorting no more than the rows whose nucleus is longer than HEAD. Looks at values: syncs."""
    ranked = probs.topk(min(HEAD, probs.shape[1]), dim=-1).values
    sizes = _nucleus(ranked, mass)
    least = ranked.gather(1, sizes - 1)
    long = (sizes == ranked.shape[1]).squeeze(1)
    if long.any():
        least[long] = _least(probs[long], mass[long])
    return least


def _nucleus(ranked: Tensor, mass: Tensor) -> Tensor:
    """How many (n, 1) of the ranked probabilities (n, K) come before `mass` is reached; at least 1."""
    before = ranked.cumsum(-1) - ranked
    return (before < mass).sum(-1, keepdim=True).clamp(min=1)
