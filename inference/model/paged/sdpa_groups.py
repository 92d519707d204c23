"""Which pages the rows of a step read: a row alone, or rows of similar length as a group.

Plain indices, the same for all layers with the same window; knows nothing of keys and values.
"""

from collections import defaultdict
from dataclasses import dataclass

import torch

from inference.model.paged.attn_metadata import AttnMetadata, QuerySpan


@dataclass(frozen=True, slots=True)
class SingleRow:
    """A row: its tokens [start, end) of the step attend to tokens [low, high) of the concatenated pages.

    mask  (q, high - low); None if no mask is needed: for one token, or with is_causal for a whole prompt
    """

    start: int
    end: int
    pages: torch.Tensor | slice
    low: int
    high: int
    mask: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class GroupedRows:
    """K rows of one token each that read P pages each.

    token_indices  (K,)          indices of the tokens in the step
    pages          (K P,)        P pages of each row in turn
    mask           (K, 1, 1, n)  which of the n = P × page_size tokens each row attends to
    """

    token_indices: torch.Tensor
    pages: torch.Tensor
    mask: torch.Tensor


def group_rows(
    metadata: AttnMetadata, window: int | None, device: torch.device
) -> tuple[list[SingleRow], list[GroupedRows]]:
    """Group rows of one token that read similarly many tokens, within a factor of 2; the rest stay alone."""
    classes: defaultdict[int, list[QuerySpan]] = defaultdict(list)
    single_spans = []
    for span in metadata.spans:
        if span.end - span.start == 1:
            classes[(min(span.length, window or span.length) - 1).bit_length()].append(span)
        else:
            single_spans.append(span)
    groups = [spans for spans in classes.values() if len(spans) > 1]
    single_spans += [span for spans in classes.values() if len(spans) == 1 for span in spans]
    single_rows = [single_row(span, metadata.page_size, window, device) for span in single_spans]
    return single_rows, [grouped_rows(spans, metadata.page_size, window, device) for spans in groups]


def single_row(span: QuerySpan, page_size: int, window: int | None, device: torch.device) -> SingleRow:
    queries = span.end - span.start
    low = first_visible(span, window)
    first, page_ids = pages_from(span, low, page_size)
    run = page_ids == list(range(page_ids[0], page_ids[0] + len(page_ids)))
    pages = slice(page_ids[0], page_ids[0] + len(page_ids)) if run else torch.tensor(page_ids, device=device)
    low, high = low - first, span.length - first
    mask = None
    if queries > 1 and (window is not None or span.length > queries):
        at = torch.arange(high - queries, high, device=device)[:, None]
        column = torch.arange(low, high, device=device)
        mask = column <= at if window is None else (column <= at) & (column > at - window)
    return SingleRow(span.start, span.end, pages, low, high, mask)


def grouped_rows(
    spans: list[QuerySpan], page_size: int, window: int | None, device: torch.device
) -> GroupedRows:
    """Build a group. Shorter rows repeat their own last page, masked: another row's page may contain nan."""
    lows = [first_visible(span, window) for span in spans]
    read = [pages_from(span, low, page_size) for span, low in zip(spans, lows, strict=True)]
    widest = max(len(page_ids) for _, page_ids in read)
    pages = [page for _, page_ids in read for page in page_ids + page_ids[-1:] * (widest - len(page_ids))]
    first = torch.tensor([first for first, _ in read], device=device)[:, None]
    column = torch.arange(widest * page_size, device=device)
    low = torch.tensor(lows, device=device)[:, None] - first
    high = torch.tensor([span.length for span in spans], device=device)[:, None] - first
    mask = (column >= low) & (column < high)
    token_indices = torch.tensor([span.start for span in spans], device=device)
    return GroupedRows(token_indices, torch.tensor(pages, device=device), mask[:, None, None])


def first_visible(span: QuerySpan, window: int | None) -> int:
    """The first token of a row that any of its new tokens attends to."""
    return 0 if window is None else max(0, span.length - (span.end - span.start) + 1 - window)


def pages_from(span: QuerySpan, low: int, page_size: int) -> tuple[int, list[int]]:
    """The number of tokens in the pages before token `low`'s page, and the pages from that one on."""
    first = low // page_size
    return first * page_size, list(span.pages[first : -(-span.length // page_size)])
