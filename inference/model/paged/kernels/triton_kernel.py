"""What one program of the Triton kernel computes.

It takes some queries of one row, with all query heads of one KV head, and iterates over the row's pages, or
over a split of them; the last program of a block to arrive adds up the block's splits. The softmax is online,
in float32 (Milakov and Gimelshein, arXiv 1805.02867; Dao, arXiv 2307.08691).
"""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit(do_not_specialize=["query_token", "query_head", "table_row", "rows"])
def attend_pages(
    query: tl.tensor,  # (T, H, D), strides query_token, query_head, 1
    keys: tl.tensor,  # (N, SIZE, GROUPS, D)
    values: tl.tensor,  # (N, SIZE, GROUPS, E)
    output: tl.tensor,  # (T, H, E)
    split_sums: tl.tensor,  # (T, H, SPLITS, E): the values of a split, times their weights
    max_scores: tl.tensor,  # (T, H, SPLITS): the highest score of a split, times log2 e
    totals: tl.tensor,  # (T, H, SPLITS): the sum of its weights, scaled so that the highest is 1
    arrivals: tl.tensor,  # (blocks, GROUPS): 0 before and after a launch
    sinks: tl.tensor,  # (H,)
    query_start_loc: tl.tensor,  # (rows + 1,)
    seq_lens: tl.tensor,  # (rows,)
    page_table: tl.tensor,  # (rows, …), stride table_row
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
    SPLITS: tl.constexpr,
    MIN_TOKENS: tl.constexpr,
    WINDOW: tl.constexpr,
    SOFTCAP: tl.constexpr,
    SINKS: tl.constexpr,
) -> None:
    """Compute the attention of one block of queries of a row, for one KV head and one split of the row.

    The programs are (blocks of all rows, GROUPS, SPLITS). A block has BLOCK_M // GROUP queries, each with the
    GROUP query heads of the KV head. WINDOW: 0 for none. A split has about MIN_TOKENS tokens at least: a
    short row has fewer than SPLITS, and a row of one split is complete without combine_splits.
    """
    block, shared, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    QUERIES: tl.constexpr = BLOCK_M // GROUP
    # Row i's blocks begin at query_start_loc[i] // QUERIES + i: as many as it needs, or one more.
    every = tl.arange(0, BLOCK_R)
    begins = tl.load(query_start_loc + every, mask=every < rows, other=0) // QUERIES + every
    row = tl.sum(((every < rows) & (begins <= block)).to(tl.int32)) - 1
    start = tl.load(query_start_loc + row)
    count = tl.load(query_start_loc + row + 1) - start
    length = tl.load(seq_lens + row)
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
    queries = tl.load(
        query + token[:, None] * query_token + head[:, None] * query_head + d[None, :],
        mask=real[:, None] & (d < D)[None, :],
        other=0.0,
    )
    position = length - count + at  # the position of each query's token in its row

    low = 0
    if WINDOW:
        low = tl.maximum(low, length - count + first - WINDOW + 1)
    high = tl.minimum(length, length - count + first + QUERIES)
    if SPLITS > 1:
        used = tl.minimum(tl.cdiv(high - low, MIN_TOKENS), SPLITS)
        if split >= used:
            return
        share = tl.cdiv(tl.cdiv(high - low, BLOCK_N), used) * BLOCK_N
        low = low + split * share
        high = tl.minimum(high, low + share)

    max_score = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    sums = tl.zeros([BLOCK_M, BLOCK_E], tl.float32)
    if SINKS and split == 0:
        max_score = tl.load(sinks + head, mask=real, other=0.0).to(tl.float32) * LOG2E
        total += 1.0

    for begin in range(low, high, BLOCK_N):
        column = begin + tl.arange(0, BLOCK_N)
        in_range = column < high
        page = tl.load(page_table + row * table_row + column // SIZE, mask=in_range, other=0).to(tl.int64)
        slot = (page * SIZE + column % SIZE) * GROUPS + shared
        key = tl.load(
            keys + slot[None, :] * D + d[:, None], mask=in_range[None, :] & (d < D)[:, None], other=0.0
        )
        score = tl.dot(queries, key, input_precision="ieee") * scale
        if SOFTCAP:  # tanh, in a form that is finite at both ends of the range
            score = softcap * (1.0 - 2.0 / (tl.exp2(score * (2.0 * LOG2E / softcap)) + 1.0))
        visible = in_range[None, :] & (column[None, :] <= position[:, None])
        if WINDOW:
            visible = visible & (column[None, :] > position[:, None] - WINDOW)
        score = tl.where(visible, score * LOG2E, float("-inf"))
        higher = tl.maximum(max_score, tl.max(score, 1))
        base = tl.where(higher == float("-inf"), 0.0, higher)
        weight = tl.exp2(score - base[:, None])
        shrink = tl.exp2(max_score - base)
        value = tl.load(
            values + slot[:, None] * E + e[None, :], mask=in_range[:, None] & (e < E)[None, :], other=0.0
        )
        total = total * shrink + tl.sum(weight, 1)
        sums = sums * shrink[:, None] + tl.dot(weight.to(value.dtype), value, input_precision="ieee")
        max_score = higher

    at = token * (GROUPS * GROUP) + head
    in_output = real[:, None] & (e < E)[None, :]
    if SPLITS > 1:
        is_last = used == 1
        if used > 1:
            store_offset = at * SPLITS + split
            tl.store(split_sums + store_offset[:, None] * E + e[None, :], sums, mask=in_output)
            tl.store(max_scores + store_offset, max_score, mask=real)
            tl.store(totals + store_offset, total, mask=real)
            tl.debug_barrier()  # all threads have stored before one of them reports it
            arrival = arrivals + block * GROUPS + shared
            is_last = tl.atomic_add(arrival, 1) == used - 1
            if is_last:
                total, sums = combine_splits(
                    split_sums, max_scores, totals, at * SPLITS, real, e, used, E, BLOCK_M, BLOCK_E
                )
                tl.store(arrival, 0)
        in_output = in_output & is_last
    result = sums / total[:, None]
    tl.store(output + at[:, None] * E + e[None, :], result.to(output.dtype.element_ty), mask=in_output)


@triton.jit
def combine_splits(
    split_sums: tl.tensor,
    max_scores: tl.tensor,
    totals: tl.tensor,
    begin: tl.tensor,  # (BLOCK_M,): where the splits of each query and head begin
    real: tl.tensor,  # (BLOCK_M,)
    e: tl.tensor,  # (BLOCK_E,)
    used: tl.tensor,
    E: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_E: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Add up `used` splits, which other programs have stored: their weights, and their weighted values."""
    UNROLL: tl.constexpr = 4  # splits that are loaded at once
    CACHE: tl.constexpr = ".cg"  # not of this multiprocessor, whose cache does not see what others store
    max_score = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    sums = tl.zeros([BLOCK_M, BLOCK_E], tl.float32)
    for first in range(0, used, UNROLL):
        for i in tl.static_range(UNROLL):
            at, stored = begin + first + i, real & (first + i < used)
            score = tl.load(max_scores + at, mask=stored, other=float("-inf"), cache_modifier=CACHE)
            higher = tl.maximum(max_score, score)
            base = tl.where(higher == float("-inf"), 0.0, higher)
            shrink, weight = tl.exp2(max_score - base), tl.exp2(score - base)
            split_total = tl.load(totals + at, mask=stored, other=0.0, cache_modifier=CACHE)
            values = tl.load(
                split_sums + at[:, None] * E + e[None, :],
                mask=stored[:, None] & (e < E)[None, :],
                other=0.0,
                cache_modifier=CACHE,
            )
            total = total * shrink + split_total * weight
            sums = sums * shrink[:, None] + values * weight[:, None]
            max_score = higher
    return total, sums
