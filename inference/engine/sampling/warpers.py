"""Warpers: functions that reshape a whole distribution, by name, and the order in which a row applies them.

A warper maps logits (n, V) and one value per row to new logits: tokens that it removes get -inf, and at least
one token is left. The names are fields of Sampling. A request may place the repetition penalties among them.
"""

from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from typing import NamedTuple

import torch
from torch import Tensor

from inference.engine.sampling.processors import (
    REPETITION_PENALTIES,
    apply_repetition_penalties,
    requested_processors,
)
from inference.engine.sampling.scatter import NEG_INF, column_tensor, index_tensor
from inference.engine.sequence import Sequence
from inference.sampling import REPETITION_PENALTY

# Within these limits no logit overflows and -inf stays -inf; at the lower one the argmax always wins.
MIN_TEMPERATURE, MAX_TEMPERATURE = 1e-20, 1e20
# A CPU sorts 150,000 numbers in 15 ms and finds the best 1,024 in 0.6 ms. The cutoff mostly lies among the
# best 1,024; other rows are sorted in full.
PARTIAL_SORT_SIZE = 1024


class Warper(NamedTuple):
    warp: Callable[[Tensor, SequenceOf[float]], Tensor]
    neutral: float


def temperature(logits: Tensor, values: SequenceOf[float]) -> Tensor:
    return logits / column_tensor(values, logits).clamp(MIN_TEMPERATURE, MAX_TEMPERATURE)


def top_k(logits: Tensor, values: SequenceOf[float]) -> Tensor:
    """Keep the k most probable tokens, and tokens that tie with the last of them."""
    counts = [min(int(value), logits.shape[1]) for value in values]
    largest = logits.topk(max(counts), dim=-1).values
    last = column_tensor([count - 1 for count in counts], logits).long()
    return logits.masked_fill(logits < largest.gather(1, last), NEG_INF)


def min_p(logits: Tensor, values: SequenceOf[float]) -> Tensor:
    """Keep tokens at least min_p times as probable as the most probable one.

    Nguyen et al., "Turning Up the Heat: Min-p Sampling" (2024), section 3.
    """
    probs = logits.softmax(-1)
    return logits.masked_fill(probs < column_tensor(values, logits) * probs.amax(-1, keepdim=True), NEG_INF)


def top_a(logits: Tensor, values: SequenceOf[float]) -> Tensor:
    """Remove tokens less probable than top_a times the square of the highest probability.

    BlinkDL's RWKV-LM, README, "top-a sampling".
    """
    probs = logits.softmax(-1)
    return logits.masked_fill(
        probs < column_tensor(values, logits) * probs.amax(-1, keepdim=True).square(), NEG_INF
    )


def top_p(logits: Tensor, values: SequenceOf[float]) -> Tensor:
    """Keep the fewest most probable tokens whose mass reaches p, and tokens that tie with the last of them.

    Holtzman et al., "The Curious Case of Neural Text Degeneration" (2020), equation 2.
    """
    probs = logits.softmax(-1)
    ranks = -probs
    return logits.masked_fill(ranks > _cutoff_rank(ranks, probs, column_tensor(values, logits)), NEG_INF)


def typical_p(logits: Tensor, values: SequenceOf[float]) -> Tensor:
    """Keep the fewest most typical tokens whose mass reaches p, and tokens that tie with the last of them.

    The nearer a token's information is to the entropy, the more typical it is. Meister et al., "Locally
    Typical Sampling" (2022); as transformers' TypicalLogitsWarper.
    """
    scores = logits.log_softmax(-1)
    probs = scores.exp()
    entropy = -(scores * probs).nansum(-1, keepdim=True)
    ranks = (-scores - entropy).abs()
    return logits.masked_fill(ranks > _cutoff_rank(ranks, probs, column_tensor(values, logits)), NEG_INF)


def tfs(logits: Tensor, values: SequenceOf[float]) -> Tensor:
    """Remove the tail beyond the point where the second differences of the ranked probabilities sum to z.

    Phénix and Egan, "Tail Free Sampling" (2019): the absolute second differences, normalised to sum to 1. The
    i-th partial sum decides on the (i + 1)-th token; the first token always stays, the last never does.
    """
    probs = logits.softmax(-1)
    share = column_tensor(values, logits)
    if logits.device.type != "cpu" or logits.shape[1] <= PARTIAL_SORT_SIZE:
        return logits.masked_fill(_tail_mask(probs, share), NEG_INF)
    threshold, is_exact = _tail_threshold(probs, share)
    removed = probs < threshold
    if not is_exact.all():
        removed[~is_exact] = _tail_mask(probs[~is_exact], share[~is_exact])
    return logits.masked_fill(removed, NEG_INF)


# Field of Sampling → its warper. The order is transformers', and agrees with TGI's and Neodim's.
WARPERS = {
    "temperature": Warper(temperature, 1.0),
    "top_k": Warper(top_k, 0),
    "top_p": Warper(top_p, 1.0),
    "min_p": Warper(min_p, 0.0),
    "typical_p": Warper(typical_p, 1.0),
    "tfs": Warper(tfs, 0.0),
    "top_a": Warper(top_a, 0.0),
}


def apply_warpers(logits: Tensor, sequences: SequenceOf[Sequence]) -> Tensor:
    """The logits (n, V), each row warped in the order of its request; the input is not changed."""
    orders: dict[tuple[str, ...], list[int]] = {}
    for row, sequence in enumerate(sequences):
        orders.setdefault(sequence.request.sampling.warper_order, []).append(row)
    if len(orders) == 1:
        return _apply_in_order(logits, sequences, *orders)
    for order, rows in orders.items():
        row_index = index_tensor(rows, logits)
        warped_logits = _apply_in_order(logits[row_index], [sequences[row] for row in rows], order)
        logits = logits.index_copy(0, row_index, warped_logits)
    return logits


def requested_warpers(sequence: Sequence) -> tuple[str, ...]:
    """The names of the warpers that change the logits of sequence, in its order."""
    order = full_order(sequence.request.sampling.warper_order)
    return tuple(name for name in order if _is_requested(name, sequence))


def full_order(order: tuple[str, ...]) -> tuple[str, ...]:
    """`order`, followed by the warpers that it does not name in their usual order."""
    return *order, *(name for name in WARPERS if name not in order)


def _is_requested(name: str, sequence: Sequence) -> bool:
    if name == REPETITION_PENALTY:
        return bool(requested_processors(sequence, REPETITION_PENALTIES))
    return bool(getattr(sequence.request.sampling, name) != WARPERS[name].neutral)


def _apply_in_order(logits: Tensor, sequences: SequenceOf[Sequence], order: tuple[str, ...]) -> Tensor:
    for name in full_order(order):
        if name == REPETITION_PENALTY:
            logits = apply_repetition_penalties(logits, sequences)
        else:
            logits = _apply_warper(name, logits, [getattr(s.request.sampling, name) for s in sequences])
    return logits


def _apply_warper(name: str, logits: Tensor, values: SequenceOf[float]) -> Tensor:
    """Apply one warper to the rows whose value is not neutral."""
    warp, neutral = WARPERS[name]
    rows = [row for row, value in enumerate(values) if value != neutral]
    if len(rows) == len(values):
        return warp(logits, values)
    if not rows:
        return logits
    row_index = index_tensor(rows, logits)
    return logits.index_copy(0, row_index, warp(logits[row_index], [values[row] for row in rows]))


def _cutoff_rank(ranks: Tensor, probs: Tensor, mass: Tensor) -> Tensor:
    """The largest rank (n, 1) needed to reach `mass`, lowest ranks (n, V) first."""
    if ranks.device.type != "cpu":
        return _cutoff_rank_by_sort(ranks, probs, mass)
    ranked, ids = ranks.topk(min(PARTIAL_SORT_SIZE, ranks.shape[1]), dim=-1, largest=False)
    sizes = _num_needed(probs.gather(1, ids), mass)
    cutoffs = ranked.gather(1, sizes - 1)
    needs_full_sort = (sizes == ranked.shape[1]).squeeze(1)
    if needs_full_sort.any():
        cutoffs[needs_full_sort] = _cutoff_rank_by_sort(
            ranks[needs_full_sort], probs[needs_full_sort], mass[needs_full_sort]
        )
    return cutoffs


def _cutoff_rank_by_sort(ranks: Tensor, probs: Tensor, mass: Tensor) -> Tensor:
    ranked, ids = ranks.sort(-1)
    return ranked.gather(1, _num_needed(probs.gather(1, ids), mass) - 1)


def _num_needed(ranked: Tensor, mass: Tensor) -> Tensor:
    """How many (n, 1) of the ranked probabilities (n, K) are needed to reach `mass`; at least 1."""
    mass_before = ranked.cumsum(-1) - ranked
    return (mass_before < mass).sum(-1, keepdim=True).clamp(min=1)


def _tail_mask(probs: Tensor, share: Tensor) -> Tensor:
    """Mask (n, V) of the tail. If all second differences are 0, it is the last token alone."""
    ranked, ids = probs.sort(stable=True, dim=-1, descending=True)
    bends = ranked.diff(n=2).abs()
    in_tail = (bends / bends.sum(-1, keepdim=True)).cumsum(-1) > share
    in_tail = torch.nn.functional.pad(torch.nn.functional.pad(in_tail, (1, 0)), (0, 1), value=True)
    return torch.zeros_like(in_tail).scatter_(1, ids, in_tail)


def _tail_threshold(probs: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """The least probability (n, 1) above the tail, and a mask (n,) of the rows where it is exact.

    Computed from the PARTIAL_SORT_SIZE most probable tokens. The second differences beyond them sum to
    between 0 and twice their last probability: the cutoff is exact if both bounds lead to the same token, and
    that token ties with no other.
    """
    ranked = probs.topk(PARTIAL_SORT_SIZE, dim=-1).values
    bends = ranked.diff(n=2).abs().cumsum(-1)
    rest_bound = 2 * ranked[:, -2:-1]
    most, fewest = (
        1 + (bends <= share * total).sum(-1, keepdim=True)
        for total in (bends[:, -1:] + rest_bound, bends[:, -1:])
    )
    threshold, next_prob = ranked.gather(1, most - 1), ranked.gather(1, most)
    is_inside = (most < PARTIAL_SORT_SIZE - 1) & (next_prob < threshold)
    return threshold, ((most == fewest) & (is_inside | (threshold == 0))).squeeze(1)
