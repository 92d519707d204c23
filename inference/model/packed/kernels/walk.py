"""What a program of the Triton kernel computes.

It takes some of a row's queries, with all query heads that share a head of keys, and walks along the row's
pages, or a part of them; then the parts are added up. The softmax is online (Milakov and Gimelshein,
arXiv 1805.02867; Dao, arXiv 2307.08691), in float32.
"""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit(do_not_specialize=["query_token", "query_head", "table_row", "rows"])
def walk(
    query: tl.tensor,  # (T, H, D), strides query_token, query_head, 1
    keys: tl.tensor,  # (N, SIZE, GROUPS, D)
    values: tl.tensor,  # (N, SIZE, GROUPS, E)
    mixed: tl.tensor,  # (T, H, PARTS, E)
    tops: tl.tensor,  # (T, H, PARTS): the highest score of a part, times log2 e
    totals: tl.tensor,  # (T, H, PARTS): the sum of its weights, the highest of which is 1
    sinks: tl.tensor,  # (H,)
    starts: tl.tensor,  # (rows + 1,)
    lengths: tl.tensor,  # (rows,)
    tables: tl.tensor,  # (rows, …), stride table_row
    query_token: tl.tensor,
    query_head: tl.tensor,
    table_row: tl.tensor,
    rows: tl.tensor,
    scale: tl.tensor,
    softcap: tl.tensor,
    SIZE: tl.constexpr,
    GROUPS: tl.constexpr,
    GROUP: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_R: tl.constexpr,
    PARTS: tl.constexpr,
    WINDOW: tl.constexpr,
    SOFTCAP: tl.constexpr,
    SINKS: tl.constexpr,
) -> None:
    block, shared, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    QUERIES: tl.constexpr = BLOCK_M // GROUP
    # Row i has the blocks from starts[i] // QUERIES + i on, which is as many as it needs, or one more.
    every = tl.arange(0, BLOCK_R)
    begins = tl.load(starts + every, mask=every < rows, other=0) // QUERIES + every
    row = tl.sum(((every < rows) & (begins <= block)).to(tl.int32)) - 1
    start = tl.load(starts + row)
    count = tl.load(starts + row + 1) - start
    length = tl.load(lengths + row)
    first = (block - start // QUERIES - row) * QUERIES
    if first >= count:
        return

    m = tl.arange(0, BLOCK_M)
    d = tl.arange(0, BLOCK_D)
    e = tl.arange(0, BLOCK_E)
    at = first + m // GROUP
    head = shared * GROUP + m % GROUP
    real = (m < QUERIES * GROUP) & (at < count)
    token = (start + at).to(tl.int64)
    asked = tl.load(
        query + token[:, None] * query_token + head[:, None] * query_head + d[None, :],
        mask=real[:, None] & (d < D)[None, :],
        other=0.0,
    )
    place = length - count + at  # where each query's token stands in its row

    low = 0
    if WINDOW:
        low = tl.maximum(low, length - count + first - WINDOW + 1)
    high = tl.minimum(length, length - count + first + QUERIES)
    if PARTS > 1:
        share = tl.cdiv(tl.cdiv(high - low, BLOCK_N), PARTS) * BLOCK_N
        low = low + part * share
        high = tl.minimum(high, low + share)

    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    sums = tl.zeros([BLOCK_M, BLOCK_E], tl.float32)
    if SINKS and part == 0:
        top = tl.load(sinks + head, mask=real, other=0.0).to(tl.float32) * LOG2E
        total += 1.0

    for begin in range(low, high, BLOCK_N):
        column = begin + tl.arange(0, BLOCK_N)
        there = column < high
        page = tl.load(tables + row * table_row + column // SIZE, mask=there, other=0).to(tl.int64)
        slot = (page * SIZE + column % SIZE) * GROUPS + shared
        key = tl.load(
            keys + slot[None, :] * D + d[:, None], mask=there[None, :] & (d < D)[:, None], other=0.0
        )
        score = tl.dot(asked, key, input_precision="ieee") * scale
        if SOFTCAP:  # tanh by a form that neither end of the range overflows
            score = softcap * (1.0 - 2.0 / (tl.exp2(score * (2.0 * LOG2E / softcap)) + 1.0))
        seen = there[None, :] & (column[None, :] <= place[:, None])
        if WINDOW:
            seen = seen & (column[None, :] > place[:, None] - WINDOW)
        score = tl.where(seen, score * LOG2E, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        base = tl.where(higher == float("-inf"), 0.0, higher)
        weight = tl.exp2(score - base[:, None])
        shrink = tl.exp2(top - base)
        value = tl.load(
            values + slot[:, None] * E + e[None, :], mask=there[:, None] & (e < E)[None, :], other=0.0
        )
        total = total * shrink + tl.sum(weight, 1)
        sums = sums * shrink[:, None] + tl.dot(weight.to(value.dtype), value, input_precision="ieee")
        top = higher

    if PARTS == 1:
        sums = sums / total[:, None]
    put = (token * (GROUPS * GROUP) + head) * PARTS + part
    tl.store(
        mixed + put[:, None] * E + e[None, :],
        sums.to(mixed.dtype.element_ty),
        mask=real[:, None] & (e < E)[None, :],
    )
    if PARTS > 1:
        tl.store(tops + put, top, mask=real)
        tl.store(totals + put, total, mask=real)


@triton.jit
def add(
    mixed: tl.tensor,  # (T, H, PARTS, E)
    tops: tl.tensor,
    totals: tl.tensor,
    added: tl.tensor,  # (T, H, E)
    PARTS: tl.constexpr,
    E: tl.constexpr,
    BLOCK_E: tl.constexpr,
) -> None:
    """The parts of one query's walk, each by its share of all weights."""
    at = tl.program_id(0).to(tl.int64) * tl.num_programs(1) + tl.program_id(1)
    part = at * PARTS + tl.arange(0, PARTS)
    e = tl.arange(0, BLOCK_E)
    top = tl.load(tops + part)
    weight = tl.exp2(top - tl.max(top, 0))
    total = tl.sum(weight * tl.load(totals + part), 0)
    sums = tl.load(mixed + part[:, None] * E + e[None, :], mask=(e < E)[None, :], other=0.0)
    whole = tl.sum(sums * weight[:, None], 0) / total
    tl.store(added + at * E + e, whole.to(added.dtype.element_ty), mask=e < E)
