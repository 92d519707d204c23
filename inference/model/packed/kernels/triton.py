"""A kernel of our own in Triton: prompts and answers in one launch, for all that models ask of attention.

Knows how the work is shared out among programs; what one of them computes is in walk.py.
"""

from functools import cache

import torch
import triton

from inference.model.packed.kernels.index import Index, index_of
from inference.model.packed.kernels.walk import add, walk
from inference.model.packed.line import Line
from inference.model.packed.pool import Pages

LEAST = 16  # of each dimension of a product of matrices
MOST = 64  # queries × heads of a program
ROWS = 128  # that a program reads the starts of, at least: fewer is no faster, and one more thing to compile
SHARE = 256  # tokens that a part of a row has at least, or else the adding up costs more than it saves
MOST_PARTS = 32


def paged(
    query: torch.Tensor,
    pages: Pages,
    line: Line,
    *,
    scale: float,
    window: int | None,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """A Kernel (see attention.py)."""
    index = index_of(line, query.device)
    G = pages.keys.shape[2]
    reach = index.longest if window is None else min(index.longest, window + index.widest)
    programs = num_blocks(query, index, G) * G
    parts = num_parts(programs, reach, processors(query.device))
    return launch(query, pages, index, scale=scale, window=window, softcap=softcap, sinks=sinks, parts=parts)


def num_parts(programs: int, reach: int, processors: int) -> int:
    """In how many parts to walk along rows of `reach` tokens, a power of two."""
    wanted = min(2 * processors // programs, reach // SHARE, MOST_PARTS)
    return 1 << max(wanted, 1).bit_length() - 1


@cache
def processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def block_of(index: Index, group: int) -> int:
    """Queries × heads of a program."""
    return max(LEAST if index.widest * group <= LEAST else MOST, triton.next_power_of_2(group))


def num_blocks(query: torch.Tensor, index: Index, G: int) -> int:
    """Programs that hold all queries of all rows, at most: a row's last one need not be full."""
    T, H, _ = query.shape
    return T // (block_of(index, H // G) // (H // G)) + len(index.lengths)


def launch(
    query: torch.Tensor,
    pages: Pages,
    index: Index,
    *,
    scale: float,
    window: int | None,
    softcap: float | None,
    sinks: torch.Tensor | None,
    parts: int,
) -> torch.Tensor:
    """Attention of query (T, H, D) as (T, H, E), each row in so many parts."""
    query = query if query.stride(-1) == 1 else query.contiguous()
    T, H, D = query.shape
    S, G, E = pages.values.shape[1:]
    whole = parts == 1
    out = query.new_empty(T, H, E, dtype=query.dtype if whole else torch.float32)
    mixed = out if whole else query.new_empty(T, H, parts, E, dtype=torch.float32)
    tops, totals = (query.new_empty(() if whole else (T, H, parts), dtype=torch.float32) for _ in range(2))
    small = query.element_size() == 2 and max(D, E) <= 128
    rows = len(index.lengths)
    walk[num_blocks(query, index, G), G, parts](
        query,
        pages.keys,
        pages.values,
        mixed,
        tops,
        totals,
        query if sinks is None else sinks,
        index.starts,
        index.lengths,
        index.tables,
        *query.stride()[:2],
        index.tables.stride(0),
        rows,
        scale,
        softcap or 0.0,
        SIZE=S,
        GROUPS=G,
        GROUP=H // G,
        D=D,
        E=E,
        BLOCK_D=max(LEAST, triton.next_power_of_2(D)),
        BLOCK_E=max(LEAST, triton.next_power_of_2(E)),
        BLOCK_M=block_of(index, H // G),
        BLOCK_N=64 if small else 32,
        BLOCK_R=max(ROWS, triton.next_power_of_2(rows)),
        PARTS=parts,
        WINDOW=window or 0,
        SOFTCAP=softcap is not None,
        SINKS=sinks is not None,
        num_warps=4 if small else 8,
        num_stages=2,
    )
    if whole:
        return out
    added = query.new_empty(T, H, E)
    add[T, H](mixed, tops, totals, added, PARTS=parts, E=E, BLOCK_E=triton.next_power_of_2(E))
    return added
