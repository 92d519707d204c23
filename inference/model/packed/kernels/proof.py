"""Whether a kernel computes what the plain one does, on pages of random numbers.

Random numbers alone hide small faults: of hundreds of tokens each has a weight of next to nothing. So those
at the edges of what a query sees, inside and out, are made to matter. Knows what is asked; not who answers.
"""

import math
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from inference.model.packed.attention import Kernel
from inference.model.packed.kernels.asked import Asked
from inference.model.packed.line import Line, Span
from inference.model.packed.plain import plain
from inference.model.packed.pool import Pages

# By how much a number may differ, where values have a standard deviation of 1: a few times what rounding
# makes, a tenth or less of what one token more or less does.
ALLOWED = {torch.bfloat16: 0.04, torch.float16: 0.005}
EXACT = 1e-4
# (tokens on the line, tokens in all) of each row.
ROWS = ((1, 1), (1, 17), (5, 5), (70, 70), (1, 512), (3, 300), (37, 600), (1, 16))
FAR = 1 << 14  # tokens; the edge of a window beyond is not looked at, for the memory that it would take
LOUD = 6.0  # the score of a token at an edge, at most; others have about 1


class Sample(NamedTuple):
    query: torch.Tensor  # (T, H, D)
    pages: Pages
    line: Line
    options: dict[str, Any]


def error(kernel: Kernel, asked: Asked, size: int) -> float:
    """The largest difference from what is true, in standard deviations of a value; nan where it is none."""
    window = asked.window
    beyond = ((1, window + 9), (20, window + 33)) if window is not None and window < FAR else ()
    # A softcap is only seen at work where scores come near to it, and little else is seen there.
    louds = (LOUD,) if asked.softcap is None else (LOUD, asked.softcap)
    samples = [sampled(asked, (*ROWS, *beyond), size, loud) for loud in louds]
    return float(torch.stack([difference(kernel, sample) for sample in samples]).max())


def difference(kernel: Kernel, sample: Sample) -> torch.Tensor:
    query, pages, line, options = sample
    found = kernel(query, pages, line, **options).float()
    if options["sinks"] is not None:
        options = options | {"sinks": options["sinks"].float()}
    pages = Pages(pages.keys.float(), pages.values.float())
    return (found - plain(query.float(), pages, line, **options)).abs().max()


def allowed(asked: Asked) -> float:
    return ALLOWED.get(asked.dtype, EXACT)


def sampled(asked: Asked, rows: Sequence[tuple[int, int]], size: int, loud: float = LOUD) -> Sample:
    """A line of these rows, in pages of `size` tokens that lie in no order; scores of up to `loud`."""
    line = line_of(rows, size)
    count = sum(len(span.pages) for span in line.spans)
    T, H, D, G = line.spans[-1].end, asked.heads, asked.key_width, asked.groups
    chance = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=chance)

    direction = normal(D).sign()
    keys, values = normal(count, size, G, D), normal(count, size, G, asked.value_width)
    at = [slot for span in line.spans for slot in edges(span, size, asked.window)]
    share = 0.7 + 0.3 * torch.rand(len(at), generator=chance)
    keys.view(-1, G, D)[at] = (share[:, None] * direction)[:, None]
    # Of D numbers of ±1: their product with a key of the same is D, and the score what is wanted.
    query = (normal(H, T, D) + direction * loud / D**0.5) / (asked.scale * D**0.5)
    level = loud if asked.softcap is None else asked.softcap * math.tanh(loud / asked.softcap)
    sinks = None if asked.sinks is None else (normal(H) + 0.8 * level).to(asked.device, asked.sinks)
    return Sample(
        query.to(asked.device, asked.dtype).transpose(0, 1),
        Pages(keys.to(asked.device, asked.dtype), values.to(asked.device, asked.dtype)),
        line,
        {"scale": asked.scale, "window": asked.window, "softcap": asked.softcap, "sinks": sinks},
    )


def line_of(rows: Sequence[tuple[int, int]], size: int) -> Line:
    """A line without ids: of it, attention reads spans alone."""
    counts = [-(-length // size) for _, length in rows]
    free = list(range(sum(counts)))
    random.Random(0).shuffle(free)
    spans, end = [], 0
    for (width, length), count in zip(rows, counts, strict=True):
        spans.append(Span(end, end + width, length, [free.pop() for _ in range(count)]))
        end += width
    nothing = torch.zeros(0)
    return Line(nothing, nothing, nothing, None, spans, size)


def edges(span: Span, size: int, window: int | None) -> Iterator[int]:
    """Slots of tokens at the edges of what a row's first and last query see, and of what its page holds."""
    first, last = span.length - (span.end - span.start), span.length - 1
    places = {0, last, last + 1}
    for query in (first, last):
        places |= {query - 1, query, query + 1}
        places |= set() if window is None else {query - window, query - window + 1}
    for place in sorted(places):
        if 0 <= place < len(span.pages) * size:
            yield span.pages[place // size] * size + place % size
