"""Stateless random numbers: each is a function of (seed, position, column).

A sequence therefore gets the same numbers alone and in any batch, on any device, whatever ran before. Knows
no sequences.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from inference.model.device_copy import to_device

WORD = 1 << 64
# Noise for a selection of tokens costs up to this many times as much per token as noise for all tokens.
SPARSE_COST = 4
# Noise lies between -2.8 and 22.2 (see gumbel_noise): a logit further below the best one can never win.
NOISE_RANGE = 26.0


def _signed(word: int) -> int:
    """The int64 with the bits of `word`: torch has no uint64 arithmetic, and int64 wraps in the same way."""
    return (word + WORD // 2) % WORD - WORD // 2


# SplitMix64: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA 2014); constants of
# Vigna's splitmix64.c (prng.di.unimi.it). Output i of the stream from s is mix(s + (i + 1) GAMMA).
GAMMA = _signed(0x9E3779B97F4A7C15)
ROUNDS = ((30, _signed(0xBF58476D1CE4E5B9)), (27, _signed(0x94D049BB133111EB)), (31, 1))


def rng_keys(seeds: Iterable[int], positions: Iterable[int], device: torch.device) -> Tensor:
    """One key (n,) per (seed, position): output `position` of the stream that starts at `seed`."""
    return to_device(_mix(rng_states(seeds, positions)), device)


def rng_states(seeds: Iterable[int], positions: Iterable[int]) -> Tensor:
    """The SplitMix64 states (n,) from which rng_keys mixes the keys, on the host."""
    states = []
    for seed, position in zip(seeds, positions, strict=True):
        word = seed + (position + 1) * GAMMA
        states.append((word + WORD // 2) % WORD - WORD // 2)  # _signed without a call for each row
    return torch.tensor(states, dtype=torch.int64)


def gumbel_noise(keys: Tensor, columns: Tensor) -> Tensor:
    """Standard Gumbel noise, float32, for each key and column (int64, shapes that broadcast).

    Always finite: 31 bits become u in (0, 1), with the full precision of float32 near 0, which yields the
    large values.
    """
    bits = _mix(keys + (columns + 1) * GAMMA).bitwise_right_shift_(33)
    uniform = bits.bitwise_and_(2**31 - 1).float().mul_(2.0**-31).clamp_(2.0**-32, 1 - 2.0**-24)
    return uniform.neg_().log1p_().neg_().log_().neg_()


def add_gumbel_noise(logits: Tensor, keys: Tensor) -> Tensor:
    """Add noise to logits (n, V) in place: a row's argmax is then a sample of its softmax (Gumbel-max trick).

    On a CPU, where reading values costs no sync, noise is computed only for the tokens that can win if they
    are few.
    """
    if logits.device.type == "cpu":
        can_win = logits > logits.amax(-1, keepdim=True) - NOISE_RANGE
        if int(can_win.sum()) * SPARSE_COST < logits.numel():
            rows, columns = can_win.nonzero(as_tuple=True)
            return logits.index_put_((rows, columns), logits[can_win] + gumbel_noise(keys[rows], columns))
    return logits.add_(gumbel_noise(keys[:, None], torch.arange(logits.shape[1], device=logits.device)))


def _mix(words: Tensor) -> Tensor:
    """SplitMix64's finaliser, in place."""
    shifted = torch.empty_like(words)
    for shift, factor in ROUNDS:
        torch.bitwise_right_shift(words, shift, out=shifted)
        # torch's >> copies the sign bit: mask the copies out.
        words.bitwise_xor_(shifted.bitwise_and_((1 << (64 - shift)) - 1))
        words.mul_(factor)
    return words
