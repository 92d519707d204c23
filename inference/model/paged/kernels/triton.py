"""A paged attention kernel in Triton: prefill and decode rows in one launch, all options of AttentionKernel.

Knows how the work is divided among programs; triton_kernel.py has what one program computes.
"""

from functools import cache
from typing import NamedTuple

import torch
import triton

from inference.model.paged.attention import AttentionParams
from inference.model.paged.attn_metadata import AttnMetadata
from inference.model.paged.kernels.page_table import PageTable, page_table_of
from inference.model.paged.kernels.triton_kernel import attend_pages
from inference.model.paged.kv_pool import LayerKV

MIN_DOT_SIZE = 16  # smallest size of a dimension of tl.dot
MAX_BLOCK_M = 64  # queries × heads of a program
MIN_BLOCK_R = 128  # row starts that a program reads: fewer is no faster, and another variant to compile
MIN_SPLIT_TOKENS = 256  # tokens of a split: with fewer, combining the splits costs more than it saves
MAX_SPLITS = 32
MAX_SPLIT_BLOCKS = 4096  # blocks × KV heads of a launch with splits: far more than a device runs at once


class Tile(NamedTuple):
    """How a program reads a row: BLOCK_N tokens at once, by `num_warps` warps, `num_stages` - 1 ahead.

    most_programs: of a multiprocessor, into which rows are split.
    """

    BLOCK_N: int
    num_warps: int
    num_stages: int
    most_programs: int


# The fastest of 30 on an H100 with heads of 128 values in bfloat16 (scripts/gpu, section kernels). DEEP reads
# far ahead and takes 144 KB of shared memory, so a multiprocessor runs one program: 16 rows of 8,192 tokens
# are read at 2.9 TB/s, by SHALLOW at 1.8. Where there are many programs, SHALLOW is faster: several of them
# run on a multiprocessor.
DEEP, SHALLOW, WIDE = Tile(128, 4, 5, 1), Tile(64, 4, 2, 2), Tile(32, 8, 2, 2)
DEEP_SHARED_BYTES = 160_000


def attend(query: torch.Tensor, kv: LayerKV, metadata: AttnMetadata, params: AttentionParams) -> torch.Tensor:
    """An AttentionKernel (see paged/attention.py)."""
    page_table = page_table_of(metadata, query.device)
    G = kv.keys.shape[2]
    num_visible = (
        page_table.max_seq_len
        if params.window is None
        else min(page_table.max_seq_len, params.window + page_table.max_query_len)
    )
    programs, processors = num_blocks(query, page_table, G) * G, num_processors(query.device)
    block_m = block_size(page_table, query.shape[1] // G)
    tile = select_tile(query, kv, block_m, programs <= 2 * processors)
    return launch(
        query,
        kv,
        page_table,
        params,
        tile=tile,
        splits=num_splits(programs, num_visible, processors * tile.most_programs),
    )


def num_splits(programs: int, num_visible: int, most_programs: int) -> int:
    """Into how many splits to divide rows that read `num_visible` tokens: a power of two.

    programs: programs without splits; most_programs: with splits, at most.
    """
    limit = min(most_programs // programs, num_visible // MIN_SPLIT_TOKENS, MAX_SPLITS)
    return 1 << max(limit, 1).bit_length() - 1


@cache
def num_processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


@cache
def fits_deep_tile(device: torch.device) -> bool:
    properties = triton.runtime.driver.active.utils.get_device_properties(device.index or 0)
    return bool(properties["max_shared_mem"] >= DEEP_SHARED_BYTES)


def select_tile(query: torch.Tensor, kv: LayerKV, block_m: int, few_programs: bool) -> Tile:
    """WIDE for wide heads and for float32, whose other tiles would not fit; else by how many programs run."""
    if query.element_size() > 2 or max(kv.keys.shape[3], kv.values.shape[3]) > 128:
        return WIDE
    is_deep = few_programs and block_m == MIN_DOT_SIZE and fits_deep_tile(query.device)
    return DEEP if is_deep else SHALLOW


def block_size(page_table: PageTable, group: int) -> int:
    """Queries × heads of a program, BLOCK_M."""
    return max(
        MIN_DOT_SIZE if page_table.max_query_len * group <= MIN_DOT_SIZE else MAX_BLOCK_M,
        triton.next_power_of_2(group),
    )


def num_blocks(query: torch.Tensor, page_table: PageTable, G: int) -> int:
    """An upper bound of the blocks of queries of all rows: the last block of a row may be partly empty."""
    T, H, _ = query.shape
    return T // (block_size(page_table, H // G) // (H // G)) + len(page_table.seq_lens)


def launch(
    query: torch.Tensor,
    kv: LayerKV,
    page_table: PageTable,
    params: AttentionParams,
    *,
    tile: Tile,
    splits: int,
) -> torch.Tensor:
    """Attention of query (T, H, D) as (T, H, E), with each row divided into `splits` splits."""
    scale, window, softcap, sinks = params
    query = query if query.stride(-1) == 1 else query.contiguous()
    T, H, D = query.shape
    S, G, E = kv.values.shape[1:]
    output = query.new_empty(T, H, E)
    split_shape = (T, H, splits) if splits > 1 else (0, 0, 0)
    split_sums = query.new_empty(*split_shape, E, dtype=torch.float32)
    max_scores, totals = (query.new_empty(split_shape, dtype=torch.float32) for _ in range(2))
    rows = len(page_table.seq_lens)
    blocks = num_blocks(query, page_table, G)
    assert splits == 1 or blocks * G <= MAX_SPLIT_BLOCKS
    with torch.cuda.device_of(query):  # Triton launches on the current device, whose tensors these may not be
        attend_pages[blocks, G, splits](
            query,
            kv.keys,
            kv.values,
            output,
            split_sums,
            max_scores,
            totals,
            arrivals(query.device),
            query if sinks is None else sinks,
            page_table.query_start_loc,
            page_table.seq_lens,
            page_table.pages,
            *query.stride()[:2],
            page_table.pages.stride(0),
            rows,
            scale,
            softcap or 0.0,
            SIZE=S,
            GROUPS=G,
            GROUP=H // G,
            D=D,
            E=E,
            BLOCK_D=max(MIN_DOT_SIZE, triton.next_power_of_2(D)),
            BLOCK_E=max(MIN_DOT_SIZE, triton.next_power_of_2(E)),
            BLOCK_M=block_size(page_table, H // G),
            BLOCK_R=max(MIN_BLOCK_R, triton.next_power_of_2(rows)),
            SPLITS=splits,
            MIN_TOKENS=MIN_SPLIT_TOKENS,
            WINDOW=window or 0,
            SOFTCAP=softcap is not None,
            SINKS=sinks is not None,
            BLOCK_N=tile.BLOCK_N,
            num_warps=tile.num_warps,
            num_stages=tile.num_stages,
        )
    return output


@cache
def arrivals(device: torch.device) -> torch.Tensor:
    """Counters of the programs that have stored their split; every launch leaves zeros."""
    return torch.zeros(MAX_SPLIT_BLOCKS, dtype=torch.int32, device=device)
