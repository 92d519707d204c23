"""What one program of each sampling kernel computes: the cutoff of a row, or the best token of a block.

A kernel reads the parameters of its n rows from two tensors: `integers` (3, n) and `floats` (3, n), whose
first dimension the constants below name.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from inference.engine.sampling.gumbel import GAMMA as SIGNED_GAMMA
from inference.engine.sampling.gumbel import ROUNDS, WORD

ROW, KEY, TOP_K = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
TEMPERATURE, TOP_P, LOG_MIN_P = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)

GAMMA = tl.constexpr(SIGNED_GAMMA % WORD)
# The last round does not change the upper 31 bits, which alone are used.
SHIFT_1, SHIFT_2 = (tl.constexpr(shift) for shift, _ in ROUNDS[:2])
FACTOR_1, FACTOR_2 = (tl.constexpr(factor % WORD) for _, factor in ROUNDS[:2])
MIN_UNIFORM, MAX_UNIFORM = tl.constexpr(2.0**-32), tl.constexpr(1 - 2.0**-24)
UNIFORM_STEP = tl.constexpr(2.0**-31)
LOG2E = tl.constexpr(1.4426950408889634)
INF, NEG_INF = tl.constexpr(float("inf")), tl.constexpr(float("-inf"))


@triton.jit
def gumbel_argmax(
    logits: tl.tensor,  # (W, V), strides row_stride, 1
    integers: tl.tensor,  # (3, n) int64
    floats: tl.tensor,  # (3, n) float32
    cutoffs: tl.tensor,  # (n,) float32: tokens with logit / temperature below it are excluded
    max_values: tl.tensor,  # (n, blocks) float32
    token_ids: tl.tensor,  # (n, blocks) int64
    row_stride: tl.tensor,
    VOCAB: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """The largest logit / temperature + noise of a block of a row, and the first token with it.

    The programs are (blocks, n). The value is NaN if the block has NaN, -inf if no token is left.
    """
    block, index, n = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    row = tl.load(integers + ROW * n + index)
    column = block * BLOCK + tl.arange(0, BLOCK)
    values = load_logits(logits + row * row_stride, column, VOCAB)
    has_nan = tl.max((values != values).to(tl.int32), 0) > 0
    # div_rn rounds as torch does; `/` is a faster approximation.
    scaled = tl.div_rn(values, tl.load(floats + TEMPERATURE * n + index))
    scaled = tl.where(scaled >= tl.load(cutoffs + index), scaled, NEG_INF)
    best_value, best_index = tl.max(scaled, 0), 0
    if best_value > NEG_INF:
        noisy = scaled + gumbel_noise(tl.load(integers + KEY * n + index), column)
        best_value, best_index = tl.max(noisy, 0, return_indices=True, return_indices_tie_break_left=True)
    output = index * tl.num_programs(0) + block
    # NaN as a literal: Triton refuses a global that has changed, and NaN differs from itself.
    tl.store(max_values + output, tl.where(has_nan, float("nan"), best_value))
    tl.store(token_ids + output, (block * BLOCK + best_index).to(tl.int64))


@triton.jit
def gumbel_noise(key: tl.tensor, column: tl.tensor) -> tl.tensor:
    """gumbel.gumbel_noise, bit for bit where libdevice has torch's log and log1p."""
    word = key.to(tl.uint64, bitcast=True) + (column + 1).to(tl.uint64) * GAMMA
    word = (word ^ (word >> SHIFT_1)) * FACTOR_1
    word = (word ^ (word >> SHIFT_2)) * FACTOR_2
    uniform = (word >> 33).to(tl.int32).to(tl.float32) * UNIFORM_STEP
    uniform = tl.minimum(tl.maximum(uniform, MIN_UNIFORM), MAX_UNIFORM)
    return -libdevice.log(-libdevice.log1p(-uniform))


@triton.jit
def compute_cutoffs(
    logits: tl.tensor,  # (W, V), strides row_stride, 1
    integers: tl.tensor,  # (3, n) int64
    floats: tl.tensor,  # (3, n) float32
    cutoffs: tl.tensor,  # (n,) float32
    row_stride: tl.tensor,
    VOCAB: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """The least logit / temperature of a row that top-k, then top-p, then min-p keep; -inf without any.

    The programs are (n,). Division by a temperature keeps the order, so cutoffs are searched among the
    logits. A top_k of 0, a top_p of 1 and a log_min_p of -inf disable a filter.
    """
    index, n = tl.program_id(0), tl.num_programs(0)
    top_k = tl.load(integers + TOP_K * n + index)
    top_p, log_min_p = tl.load(floats + TOP_P * n + index), tl.load(floats + LOG_MIN_P * n + index)
    if (top_k == 0) & (top_p >= 1) & (log_min_p == NEG_INF):
        tl.store(cutoffs + index, NEG_INF)
        return
    row_logits = logits + tl.load(integers + ROW * n + index) * row_stride
    temperature = tl.load(floats + TEMPERATURE * n + index)
    low, largest = finite_range(row_logits, VOCAB, BLOCK)
    low = tl.where(largest < INF, low, largest)  # weights relative to +inf are NaN: nothing to search
    if top_k > 0:
        low = find_cutoff(row_logits, VOCAB, low, largest, 0.0, top_k.to(tl.float32), BLOCK)
    if top_p < 1:
        scale = LOG2E / temperature
        target = top_p * sum_weights(row_logits, VOCAB, low, largest, scale, BLOCK)
        low = find_cutoff(row_logits, VOCAB, low, largest, scale, target, BLOCK)
    min_p_cutoff = tl.div_rn(largest, temperature) + log_min_p
    tl.store(cutoffs + index, tl.maximum(tl.div_rn(low, temperature), min_p_cutoff))


@triton.jit
def find_cutoff(
    row_logits: tl.tensor,
    VOCAB: tl.constexpr,
    low: tl.tensor,
    largest: tl.tensor,
    scale: tl.tensor,
    target: tl.tensor,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """The least logit from `low` to `largest` such that the logits above it weigh less than `target`.

    A logit weighs 2 ** (scale * (logit - largest)). Each pass over the row halves [low, high], and both ends
    move on to logits of the row: the search ends after at most as many passes as there are distinct logits,
    and mostly after about 10 for bfloat16, 20 for float32.
    """
    high = largest
    while low < high:
        middle = low * 0.5 + high * 0.5
        pivot = tl.where(middle < high, tl.maximum(middle, low), low)
        weights = tl.zeros([BLOCK], tl.float32)
        largest_below = tl.full([BLOCK], NEG_INF, tl.float32)
        least_above = tl.full([BLOCK], INF, tl.float32)
        for start in range(0, VOCAB, BLOCK):
            values = load_logits(row_logits, start + tl.arange(0, BLOCK), VOCAB)
            is_above = values > pivot
            weights += tl.where(is_above, tl.exp2((values - largest) * scale), 0.0)
            largest_below = tl.maximum(largest_below, tl.where(is_above, NEG_INF, values))
            least_above = tl.minimum(least_above, tl.where(is_above, values, INF))
        is_enough = tl.sum(weights, 0) < target
        high = tl.where(is_enough, tl.max(largest_below, 0), high)
        low = tl.where(is_enough, low, tl.min(least_above, 0))
    return high


@triton.jit
def sum_weights(
    row_logits: tl.tensor,
    VOCAB: tl.constexpr,
    low: tl.tensor,
    largest: tl.tensor,
    scale: tl.tensor,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """The sum of 2 ** (scale * (logit - largest)) over the logits from `low` on."""
    weights = tl.zeros([BLOCK], tl.float32)
    for start in range(0, VOCAB, BLOCK):
        values = load_logits(row_logits, start + tl.arange(0, BLOCK), VOCAB)
        weights += tl.where(values >= low, tl.exp2((values - largest) * scale), 0.0)
    return tl.sum(weights, 0)


@triton.jit
def finite_range(
    row_logits: tl.tensor, VOCAB: tl.constexpr, BLOCK: tl.constexpr
) -> tuple[tl.tensor, tl.tensor]:
    """The least logit above -inf, and the largest logit; NaN is ignored."""
    least, largest = tl.full([BLOCK], INF, tl.float32), tl.full([BLOCK], NEG_INF, tl.float32)
    for start in range(0, VOCAB, BLOCK):
        values = load_logits(row_logits, start + tl.arange(0, BLOCK), VOCAB)
        is_number = values > NEG_INF
        least = tl.minimum(least, tl.where(is_number, values, INF))
        largest = tl.maximum(largest, tl.where(is_number, values, NEG_INF))
    return tl.min(least, 0), tl.max(largest, 0)


@triton.jit
def load_logits(row_logits: tl.tensor, column: tl.tensor, VOCAB: tl.constexpr) -> tl.tensor:
    """The logits of the columns in float32, -inf beyond the vocabulary."""
    return tl.load(row_logits + column, mask=column < VOCAB, other=NEG_INF).to(tl.float32)
