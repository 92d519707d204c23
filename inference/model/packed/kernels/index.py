"""Where the rows of a line stand in the pages, as a kernel that reads all rows at once is told.

Made once a step for all layers, by one copy to the device; or made once and filled anew at each step, where
the addresses of tensors may not change. Knows spans; not what is read.
"""

from collections.abc import Sequence

import torch

from inference.model.packed.line import Line, Span

ALIGNED = 4  # int32 that fill 16 bytes: kernels are compiled for addresses that are multiples of those


class Index:
    """R rows of at most P pages, in tensors of int32.

    starts   (R + 1,)  where each row's tokens begin on the line
    lengths  (R,)      tokens that stand in each row's pages, those of the line included
    sums     (R + 1,)  lengths of all rows before each
    tables   (R, P)    those pages, in order; behind them any number of a page
    widest   the most tokens that a row takes on the line
    longest  the most that stand in a row's pages
    """

    def __init__(self, rows: int, pages: int, device: torch.device, *, widest: int, longest: int) -> None:
        """`widest` and `longest` may be more than any row has, never less."""
        self.widest, self.longest = widest, longest
        pages = aligned(pages)
        self.host = torch.zeros(rows * pages + 2 * aligned(rows + 1) + rows, dtype=torch.int32)
        self.flat = torch.zeros_like(self.host, device=device)
        self.tables, self.starts, self.sums, self.lengths = parts(self.flat, rows, pages)
        self.sources = parts(self.host, rows, pages)
        self.held: list[list[int]] = [[] for _ in range(rows)]

    def fill(self, spans: Sequence[Span]) -> None:
        """Say where R rows stand, in the same tensors as before. The device waits for nothing."""
        tables, starts, sums, lengths = self.sources
        starts[1:] = torch.tensor([span.end for span in spans], dtype=torch.int32)
        lengths[:] = torch.tensor([span.length for span in spans], dtype=torch.int32)
        sums[1:] = lengths.cumsum(0)
        for row, span in enumerate(spans):
            pages = list(span.pages)
            if pages != self.held[row]:
                tables[row, : len(pages)] = torch.tensor(pages, dtype=torch.int32)
                self.held[row] = pages
        # Pinned memory of its own for each copy: the last one may be under way still.
        source = self.host.pin_memory() if self.flat.is_cuda else self.host
        self.flat.copy_(source, non_blocking=True)


def index_of(line: Line, device: torch.device) -> Index:
    """The line's index on a device, made when it is first asked for; or the one that was put there."""
    name = name_on(device)
    if name not in line.derived:
        spans = line.spans
        index = Index(
            len(spans),
            max(len(span.pages) for span in spans),
            device,
            widest=max(span.end - span.start for span in spans),
            longest=max(span.length for span in spans),
        )
        index.fill(spans)
        line.derived[name] = index
    found: Index = line.derived[name]
    return found


def name_on(device: torch.device) -> str:
    """Under which name a line's `derived` holds its index: for who puts one there that is filled in place."""
    return f"index {device}"


def parts(flat: torch.Tensor, rows: int, pages: int) -> tuple[torch.Tensor, ...]:
    """Tables, starts, sums and lengths, each at an aligned address."""
    starts = rows * pages
    sums = starts + aligned(rows + 1)
    lengths = sums + aligned(rows + 1)
    every = slice(rows + 1)
    return flat[:starts].view(rows, pages), flat[starts:][every], flat[sums:][every], flat[lengths:]


def aligned(count: int) -> int:
    return -(-count // ALIGNED) * ALIGNED
