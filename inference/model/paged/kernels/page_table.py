"""The page table of a batch, for kernels that read all rows at once.

Built once per step for all layers with one copy to the device; under CUDA graphs, where addresses must not
change, allocated once and refilled at each step. Knows query spans; not what is read.
"""

from collections.abc import Sequence

import torch

from inference.model.paged.attn_metadata import AttnMetadata, QuerySpan

ALIGNMENT = 4  # int32 values in 16 bytes: kernels are compiled for addresses that are multiples of 16


class PageTable:
    """R rows of at most P pages, in int32 tensors on the device.

    pages            (R, P)    the pages of each row, in order; after them, any page ids
    query_start_loc  (R + 1,)  where each row's tokens begin in the step
    cu_seq_lens      (R + 1,)  the sum of seq_lens before each row
    seq_lens         (R,)      tokens in each row's pages, including those of the step
    max_query_len    upper bound of a row's tokens in the step
    max_seq_len      upper bound of seq_lens
    """

    def __init__(
        self, rows: int, num_pages: int, device: torch.device, *, max_query_len: int, max_seq_len: int
    ) -> None:
        """Allocate the tensors for `rows` rows of at most `num_pages` pages; `fill` sets their values."""
        self.max_query_len, self.max_seq_len = max_query_len, max_seq_len
        num_pages = round_up(num_pages)
        self.host_pages = torch.zeros((rows, num_pages), dtype=torch.int32)
        self.pages = torch.zeros_like(self.host_pages, device=device)
        # What a step copies to the device: the lengths, then the columns of `pages` in use.
        self.num_lengths = 2 * round_up(rows + 1) + round_up(rows)
        self.received = torch.zeros(self.num_lengths + rows * num_pages, dtype=torch.int32, device=device)
        self.query_start_loc, self.cu_seq_lens, self.seq_lens = split_lengths(self.received, rows)
        self.row_pages: list[list[int]] = [[] for _ in range(rows)]

    def fill(self, spans: Sequence[QuerySpan]) -> None:
        """Set the values from R spans, in the same tensors; the copy to the device is asynchronous."""
        for row, span in enumerate(spans):
            pages = list(span.pages)
            if pages != self.row_pages[row]:
                self.host_pages[row, : len(pages)] = torch.tensor(pages, dtype=torch.int32)
                self.row_pages[row] = pages
        rows, used = len(spans), max(len(span.pages) for span in spans)
        size = self.num_lengths + rows * used
        # New memory for each copy, pinned: the previous copy may still be in progress.
        source = torch.empty(size, dtype=torch.int32, pin_memory=self.pages.is_cuda)
        query_start_loc, cu_seq_lens, seq_lens = split_lengths(source, rows)
        query_start_loc[0] = cu_seq_lens[0] = 0
        query_start_loc[1:] = torch.tensor([span.end for span in spans], dtype=torch.int32)
        seq_lens[:] = torch.tensor([span.length for span in spans], dtype=torch.int32)
        cu_seq_lens[1:] = seq_lens.cumsum(0)
        source[self.num_lengths :].view(rows, used).copy_(self.host_pages[:, :used])
        self.received[:size].copy_(source, non_blocking=True)
        self.pages[:, :used] = self.received[self.num_lengths : size].view(rows, used)


def page_table_of(metadata: AttnMetadata, device: torch.device) -> PageTable:
    """The step's page table on a device: built at first use, or the one put into per_step_cache before."""
    name = cache_key(device)
    if name not in metadata.per_step_cache:
        spans = metadata.spans
        created = PageTable(
            len(spans),
            max(len(span.pages) for span in spans),
            device,
            max_query_len=max(span.end - span.start for span in spans),
            max_seq_len=max(span.length for span in spans),
        )
        created.fill(spans)
        metadata.per_step_cache[name] = created
    page_table: PageTable = metadata.per_step_cache[name]
    return page_table


def cache_key(device: torch.device) -> str:
    """The key of per_step_cache under which a caller can put a page table that it refills itself."""
    return f"page table {device}"


def split_lengths(flat: torch.Tensor, rows: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """query_start_loc, cu_seq_lens and seq_lens as views of `flat`, each at an aligned address."""
    sums, lengths = round_up(rows + 1), 2 * round_up(rows + 1)
    return flat[: rows + 1], flat[sums : sums + rows + 1], flat[lengths : lengths + rows]


def round_up(count: int) -> int:
    return -(-count // ALIGNMENT) * ALIGNMENT
