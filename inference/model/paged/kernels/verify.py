"""Verifies an attention kernel against sdpa.py, on pages of random numbers.

Random numbers alone hide small errors: among hundreds of tokens, each has almost no weight. So the tokens at
the edges of what a query sees, inside and outside, get high scores. Knows attention shapes; not which kernels
exist.
"""

import math
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from inference.model.paged.attention import AttentionKernel, AttentionParams
from inference.model.paged.attn_metadata import AttnMetadata, QuerySpan
from inference.model.paged.kernels.shapes import AttentionShape
from inference.model.paged.kv_pool import LayerKV
from inference.model.paged.sdpa import sdpa_kernel

# The largest difference allowed, for values with a standard deviation of 1: a few times the rounding error,
# and at most a tenth of the effect of one token more or less.
TOLERANCE = {torch.bfloat16: 0.04, torch.float16: 0.005}
DEFAULT_TOLERANCE = 1e-4  # for other dtypes
# (tokens in the step, tokens in all) of each row.
ROWS = ((1, 1), (1, 17), (5, 5), (70, 70), (1, 512), (3, 300), (37, 600), (1, 16))
MAX_TESTED_WINDOW = 1 << 14  # tokens; testing the edge of a larger window would take too much memory
EDGE_SCORE = 6.0  # the score of a token at an edge, at most; others have about 1


class Sample(NamedTuple):
    query: torch.Tensor  # (T, H, D)
    kv: LayerKV
    metadata: AttnMetadata
    params: AttentionParams


def max_error(kernel: AttentionKernel, shape: AttentionShape, page_size: int) -> float:
    """The largest difference from sdpa.py in float32, in standard deviations of a value; nan for nan."""
    window = shape.window
    beyond = ((1, window + 9), (20, window + 33)) if window is not None and window < MAX_TESTED_WINDOW else ()
    # A softcap has an effect only on scores close to it, and such scores hide other errors: test both.
    edge_scores = (EDGE_SCORE,) if shape.softcap is None else (EDGE_SCORE, shape.softcap)
    samples = [make_sample(shape, (*ROWS, *beyond), page_size, edge_score) for edge_score in edge_scores]
    return float(torch.stack([difference(kernel, sample) for sample in samples]).max())


def difference(kernel: AttentionKernel, sample: Sample) -> torch.Tensor:
    query, kv, metadata, params = sample
    actual = kernel(query, kv, metadata, params).float()
    if params.sinks is not None:
        params = params._replace(sinks=params.sinks.float())
    kv = LayerKV(kv.keys.float(), kv.values.float())
    return (actual - sdpa_kernel(query.float(), kv, metadata, params)).abs().max()


def tolerance_of(shape: AttentionShape) -> float:
    return TOLERANCE.get(shape.dtype, DEFAULT_TOLERANCE)


def make_sample(
    shape: AttentionShape, rows: Sequence[tuple[int, int]], page_size: int, edge_score: float = EDGE_SCORE
) -> Sample:
    """A step of these rows in pages in random order; tokens at edges have scores of up to `edge_score`."""
    metadata = make_metadata(rows, page_size)
    count = sum(len(span.pages) for span in metadata.spans)
    T, H, D, G = metadata.spans[-1].end, shape.num_heads, shape.head_dim, shape.num_kv_heads
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    direction = normal(D).sign()
    keys, values = normal(count, page_size, G, D), normal(count, page_size, G, shape.value_head_dim)
    at = [slot for span in metadata.spans for slot in edge_slots(span, page_size, shape.window)]
    share = 0.7 + 0.3 * torch.rand(len(at), generator=generator)
    keys.view(-1, G, D)[at] = (share[:, None] * direction)[:, None]
    # A direction of D values ±1: its dot product with itself is D, which gives the intended score.
    query = (normal(H, T, D) + direction * edge_score / D**0.5) / (shape.scale * D**0.5)
    level = edge_score if shape.softcap is None else shape.softcap * math.tanh(edge_score / shape.softcap)
    sinks = None if shape.sinks is None else (normal(H) + 0.8 * level).to(shape.device, shape.sinks)
    return Sample(
        query.to(shape.device, shape.dtype).transpose(0, 1),
        LayerKV(keys.to(shape.device, shape.dtype), values.to(shape.device, shape.dtype)),
        metadata,
        AttentionParams(shape.scale, shape.window, shape.softcap, sinks),
    )


def make_metadata(rows: Sequence[tuple[int, int]], page_size: int) -> AttnMetadata:
    """Metadata without token ids: attention kernels read only the spans."""
    counts = [-(-length // page_size) for _, length in rows]
    free = list(range(sum(counts)))
    random.Random(0).shuffle(free)
    spans, end = [], 0
    for (width, length), count in zip(rows, counts, strict=True):
        spans.append(QuerySpan(end, end + width, length, [free.pop() for _ in range(count)]))
        end += width
    nothing = torch.zeros(0)
    return AttnMetadata(nothing, nothing, nothing, None, spans, page_size)


def edge_slots(span: QuerySpan, page_size: int, window: int | None) -> Iterator[int]:
    """The slots at the edges of what a row's first and last query see, and at both ends of the row."""
    first, last = span.length - (span.end - span.start), span.length - 1
    positions = {0, last, last + 1}
    for query in (first, last):
        positions |= {query - 1, query, query + 1}
        positions |= set() if window is None else {query - window, query - window + 1}
    for position in sorted(positions):
        if 0 <= position < len(span.pages) * page_size:
            yield span.pages[position // page_size] * page_size + position % page_size
