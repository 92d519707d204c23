"""Random numbers without state: a number is a function of (seed, position, column).

So a sequence draws the same numbers alone or in a batch, on any device, whatever came before.
Knows integers only, nothing of logits or sequences.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from inference.engine.transfer import sent

WORD = 1 << 64
# Noise for chosen tokens costs up to this many times what it does for all, each.
SPARSE = 4
# Noise lies between -2.8 and 22.2 (see gumbel): a logit that is further behind the best can never win.
REACH = 26.0


def _signed(word: int) -> int:
    """The int64 with the bits of `word`; torch has no uint64 arithmetic, and int64's wraps the same way."""
    return (word + WORD // 2) % WORD - WORD // 2


# SplitMix64: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA 2014); constants of
# Vigna's splitmix64.c (prng.di.unimi.it). Output i of the stream from s is mix(s + (i + 1) GAMMA).
GAMMA = _signed(0x9E3779B97F4A7C15)
ROUNDS = ((30, _signed(0xBF58476D1CE4E5B9)), (27, _signed(0x94D049BB133111EB)), (31, 1))


def keys(seeds: Iterable[int], positions: Iterable[int], device: torch.device) -> Tensor:
    """One key (n,) per (seed, position): output `position` of the stream that `seed` begins."""
    return sent(_mix(states(seeds, positions)), device)


def states(seeds: Iterable[int], positions: Iterable[int]) -> Tensor:
    """What a key (n,) is mixed from, on the host."""
    pairs = zip(seeds, positions, strict=True)
    begun = [_signed((seed + (position + 1) * GAMMA) % WORD) for seed, position in pairs]
    return torch.tensor(begun, dtype=torch.int64)


def gumbel(keys: Tensor, columns: Tensor) -> Tensor:
    """Standard Gumbel noise, float32, for each key and column (int64, shapes that broadcast).

    Finite always: 31 bits become u in (0, 1), with all of float32's precision near 0, where the winners lie.
    """
    bits = _mix(keys + (columns + 1) * GAMMA).bitwise_right_shift_(33)
    uniform = bits.bitwise_and_(2**31 - 1).float().mul_(2.0**-31).clamp_(2.0**-32, 1 - 2.0**-24)
    return uniform.neg_().log1p_().neg_().log_().neg_()


def perturb(logits: Tensor, keys: Tensor) -> Tensor:
    """logits (n, V) plus noise, in place: a row's argmax is a draw from its softmax (the Gumbel-max trick).

    On a CPU, where looking at values costs no sync, noise is made only for what can win, if that is little.
    """
    if logits.device.type == "cpu":
        left = logits > logits.amax(-1, keepdim=True) - REACH
        if int(left.sum()) * SPARSE < logits.numel():
            rows, columns = left.nonzero(as_tuple=True)
            return logits.index_put_((rows, columns), logits[left] + gumbel(keys[rows], columns))
    return logits.add_(gumbel(keys[:, None], torch.arange(logits.shape[1], device=logits.device)))


def _mix(words: Tensor) -> Tensor:
    """SplitMix64's finaliser, in place."""
    shifted = torch.empty_like(words)
    for shift, factor in ROUNDS:
        torch.bitwise_right_shift(words, shift, out=shifted)
        words.bitwise_xor_(shifted.bitwise_and_((1 << (64 - shift)) - 1))  # >> copies the sign: cut it off
        words.mul_(factor)
    return words
