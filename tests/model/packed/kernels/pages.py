"""Pages of random numbers, rows that stand in them out of order, and what is asked of their attention."""

import random
from typing import Any

import torch

from inference.model.packed.line import Line, Span
from inference.model.packed.pool import Pages


def line_of(rows: list[tuple[int, int]], size: int, seed: int = 0) -> Line:
    """Rows of (tokens on the line, tokens in all), in pages that are shuffled."""
    counts = [-(-length // size) for _, length in rows]
    free = list(range(sum(counts) + 2))
    random.Random(seed).shuffle(free)
    spans, end = [], 0
    for (width, length), count in zip(rows, counts, strict=True):
        spans.append(Span(end, end + width, length, [free.pop() for _ in range(count)]))
        end += width
    nothing = torch.zeros(0)
    return Line(nothing, nothing, nothing, None, spans, size)


def asked(line: Line, G: int, group: int, D: int, E: int, dtype: torch.dtype) -> tuple[torch.Tensor, Pages]:
    """A query (T, H, D) that is no run of memory, as models make it, and the pages it is to see."""
    torch.manual_seed(0)
    count = sum(len(span.pages) for span in line.spans) + 2
    query = torch.randn(G * group, line.spans[-1].end, D).to(dtype).transpose(0, 1) * 2
    keys, values = torch.randn(count, line.size, G, D), torch.randn(count, line.size, G, E)
    return query, Pages(keys.to(dtype), values.to(dtype))


def widened(query: torch.Tensor, pages: Pages, options: dict[str, Any]) -> tuple[torch.Tensor, Pages]:
    """The same in float32, for the truth; sinks among the options as well."""
    if options["sinks"] is not None:
        options["sinks"] = options["sinks"].float()
    return query.float(), Pages(pages.keys.float(), pages.values.float())
