"""Where a ranked distribution is cut: top-p, typical-p and tail-free sampling.

Warpers, as in warpers.py. A CPU sorts 150,000 numbers in 15 ms and finds the best 1,024 in 0.6 ms, and mostly
the cut lies among these: only the rows where it does not are sorted.
"""

from collections.abc import Sequence as Values

import torch
from torch import Tensor

from inference.engine.cells import GONE, column

HEAD = 1024


def top_p(logits: Tensor, values: Values[float]) -> Tensor:
    """Keep the smallest set of most probable tokens that holds p, and what ties with the last of them.

    Holtzman et al., "The Curious Case of Neural Text Degeneration" (2020), equation 2.
    """
    probs = logits.softmax(-1)
    ranks = -probs
    return logits.masked_fill(ranks > _reach(ranks, probs, column(values, logits)), GONE)


def typical_p(logits: Tensor, values: Values[float]) -> Tensor:
    """Keep the smallest set of most typical tokens that holds p, and what ties with the last of them.

    The nearer a token's information is to the entropy, the more typical it is. Meister et al., "Locally
    Typical Sampling" (2022); as transformers' TypicalLogitsWarper.
    """
    scores = logits.log_softmax(-1)
    probs = scores.exp()
    entropy = -(scores * probs).nansum(-1, keepdim=True)
    ranks = (-scores - entropy).abs()
    return logits.masked_fill(ranks > _reach(ranks, probs, column(values, logits)), GONE)


def tfs(logits: Tensor, values: Values[float]) -> Tensor:
    """Cut the tail off where the curve of ranked probabilities has made z of its bends, and the last token.

    Phénix and Egan, "Tail Free Sampling" (2019): the bends are second differences, made to sum to 1. What
    they reach at the i-th decides on the (i + 1)-th token; the first always stays, the last never does.
    """
    probs = logits.softmax(-1)
    share = column(values, logits)
    if logits.device.type != "cpu" or logits.shape[1] <= HEAD:
        return logits.masked_fill(_tail(probs, share), GONE)
    least, known = _bent(probs, share)
    gone = probs < least
    if not known.all():
        gone[~known] = _tail(probs[~known], share[~known])
    return logits.masked_fill(gone, GONE)


def _reach(ranks: Tensor, probs: Tensor, mass: Tensor) -> Tensor:
    """The rank (n, 1) of the last token that is needed to hold `mass`, lowest ranks (n, V) first."""
    if ranks.device.type != "cpu":
        return _reach_of_all(ranks, probs, mass)
    ranked, ids = ranks.topk(min(HEAD, ranks.shape[1]), dim=-1, largest=False)
    sizes = _needed(probs.gather(1, ids), mass)
    reached = ranked.gather(1, sizes - 1)
    long = (sizes == ranked.shape[1]).squeeze(1)
    if long.any():
        reached[long] = _reach_of_all(ranks[long], probs[long], mass[long])
    return reached


def _reach_of_all(ranks: Tensor, probs: Tensor, mass: Tensor) -> Tensor:
    ranked, ids = ranks.sort(-1)
    return ranked.gather(1, _needed(probs.gather(1, ids), mass) - 1)


def _needed(ranked: Tensor, mass: Tensor) -> Tensor:
    """How many (n, 1) of the ranked probabilities (n, K) come before `mass` is reached; at least 1."""
    before = ranked.cumsum(-1) - ranked
    return (before < mass).sum(-1, keepdim=True).clamp(min=1)


def _tail(probs: Tensor, share: Tensor) -> Tensor:
    """Mask (n, V) of the tail. Where all are equally probable nothing bends, and only the last one goes."""
    ranked, ids = probs.sort(stable=True, dim=-1, descending=True)
    bends = ranked.diff(n=2).abs()
    past = (bends / bends.sum(-1, keepdim=True)).cumsum(-1) > share
    past = torch.nn.functional.pad(torch.nn.functional.pad(past, (1, 0)), (0, 1), value=True)
    return torch.zeros_like(past).scatter_(1, ids, past)


def _bent(probs: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """The least probability (n, 1) above the tail, and the rows (n,) where the best tokens tell it.

    The bends beyond the best sum to something between nothing and twice the last of them: where both bounds
    lead to one cut, and not among ties, that is it.
    """
    ranked = probs.topk(HEAD, dim=-1).values
    bends = ranked.diff(n=2).abs().cumsum(-1)
    rest = 2 * ranked[:, -2:-1]
    most, fewest = (
        1 + (bends <= share * total).sum(-1, keepdim=True) for total in (bends[:, -1:] + rest, bends[:, -1:])
    )
    least, below = ranked.gather(1, most - 1), ranked.gather(1, most)
    within = (most < HEAD - 1) & (below < least)
    return least, ((most == fewest) & (within | (least == 0))).squeeze(1)
