"""The low-rank outputs of captured steps, in Triton: each token finds its adapter's pair by a slot's number.

Two launches a module: x aᵀ in SPLITS sums of a token, then their product with bᵀ added to the output. Knows
tensors; nothing of modules.
"""

import torch
import triton
import triton.language as tl

SPLITS = 16  # programs that share the inputs of a token, so that one row keeps a GPU busy
TILE = 4096  # values of a (BLOCK_R, BLOCK_K) that a program holds
BLOCK_OUT = 512  # outputs of a program, as measured on an H200
RANK_STEP = 16  # rows of bᵀ that a program holds


def add_low_rank(
    x: torch.Tensor, output: torch.Tensor, token_slots: torch.Tensor, table: torch.Tensor, max_rank: int
) -> None:
    """Add (x aᵀ) bᵀ of each token's pair to its row of `output`, in place. Sums are in float32.

    x            (T, in), of the pairs' dtype, as `output` (T, out); rows may have gaps between them
    token_slots  (T,) int32: rows of the table
    table        (slots, 3) int64: the address of a (r, in), that of bᵀ (r, out), and r, at most max_rank;
                 both contiguous, their addresses multiples of 16; r is 0 in a slot without a pair
    """
    (T, inputs), outputs = x.shape, output.shape[1]
    rank = max(RANK_STEP, triton.next_power_of_2(max_rank))
    low_rank = x.new_empty(SPLITS, T, rank, dtype=torch.float32)
    with torch.cuda.device_of(x):
        project_tokens[T, SPLITS](
            x,
            low_rank,
            token_slots,
            table,
            inputs,
            x.stride(0),
            SPLITS=SPLITS,
            BLOCK_R=rank,
            BLOCK_K=TILE // rank,
        )
        expand_tokens[T, triton.cdiv(outputs, BLOCK_OUT)](
            low_rank,
            output,
            token_slots,
            table,
            outputs,
            output.stride(0),
            SPLITS=SPLITS,
            BLOCK_R=rank,
            BLOCK_OUT=BLOCK_OUT,
            RANK_STEP=RANK_STEP,
        )


@triton.jit
def project_tokens(
    x: tl.tensor,  # (T, inputs), stride x_token
    low_rank: tl.tensor,  # (SPLITS, T, BLOCK_R)
    token_slots: tl.tensor,  # (T,)
    table: tl.tensor,  # (slots, 3)
    inputs: tl.tensor,
    x_token: tl.tensor,
    SPLITS: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_K: tl.constexpr,
) -> None:
    """Sum a share of the inputs of one token. The programs are (T, SPLITS)."""
    token, split = tl.program_id(0).to(tl.int64), tl.program_id(1)
    r, k = tl.arange(0, BLOCK_R), tl.arange(0, BLOCK_K)
    entry = table + tl.load(token_slots + token) * 3
    rank = tl.load(entry + 2)
    if rank > 0:
        a = tl.multiple_of(tl.load(entry).to(tl.pointer_type(x.dtype.element_ty)), 16)
        sums = tl.zeros((BLOCK_R,), tl.float32)
        for start in range(0, inputs, SPLITS * BLOCK_K):
            column = start + split * BLOCK_K + k
            values = tl.load(x + token * x_token + column, column < inputs, 0.0).to(tl.float32)
            mask = (r < rank)[:, None] & (column < inputs)[None, :]
            weights = tl.load(a + r[:, None].to(tl.int64) * inputs + column[None, :], mask, 0.0)
            sums += tl.sum(weights.to(tl.float32) * values[None, :], 1)
        tl.store(low_rank + (split * tl.num_programs(0) + token) * BLOCK_R + r, sums)


@triton.jit
def expand_tokens(
    low_rank: tl.tensor,  # (SPLITS, T, BLOCK_R)
    output: tl.tensor,  # (T, outputs), stride output_token
    token_slots: tl.tensor,  # (T,)
    table: tl.tensor,  # (slots, 3)
    outputs: tl.tensor,
    output_token: tl.tensor,
    SPLITS: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
    RANK_STEP: tl.constexpr,
) -> None:
    """Add BLOCK_OUT outputs of one token. The programs are (T, outputs / BLOCK_OUT)."""
    token, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    split, r = tl.arange(0, SPLITS), tl.arange(0, RANK_STEP)
    column = block * BLOCK_OUT + tl.arange(0, BLOCK_OUT)
    entry = table + tl.load(token_slots + token) * 3
    rank = tl.load(entry + 2)
    if rank > 0:
        b = tl.multiple_of(tl.load(entry + 1).to(tl.pointer_type(output.dtype.element_ty)), 16)
        sums = tl.zeros((BLOCK_OUT,), tl.float32)
        for start in range(0, BLOCK_R, RANK_STEP):
            row = start + r
            shares = low_rank + (split[:, None] * tl.num_programs(0) + token) * BLOCK_R + row[None, :]
            values = tl.sum(tl.load(shares), 0)
            mask = (row < rank)[:, None] & (column < outputs)[None, :]
            weights = tl.load(b + row[:, None].to(tl.int64) * outputs + column[None, :], mask, 0.0)
            sums += tl.sum(weights.to(tl.float32) * values[:, None], 0)
        target = output + token * output_token + column
        before = tl.load(target, column < outputs, 0.0).to(tl.float32)
        tl.store(target, (before + sums).to(output.dtype.element_ty), column < outputs)
