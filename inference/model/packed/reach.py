"""What the rows of a line read in a step: alone, or together where they are of about the same length.

Plain indices, the same for all layers that see the same window; nothing of keys and values.
"""

from collections import defaultdict
from dataclasses import dataclass

import torch

from inference.model.packed.line import Line, Span


@dataclass(frozen=True, slots=True)
class Alone:
    """One row's tokens [start, end) of the line read places [low, high) of these pages side by side.

    mask (q, high - low); None: every token all before it, which is_causal says where there are several
    """

    start: int
    end: int
    pages: torch.Tensor | slice
    low: int
    high: int
    mask: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class Together:
    """K rows of one token each, at `places` (K,) of the line, read P pages each (K P,); mask (K, 1, 1, n)."""

    places: torch.Tensor
    pages: torch.Tensor
    mask: torch.Tensor


def reach(line: Line, window: int | None, device: torch.device) -> tuple[list[Alone], list[Together]]:
    """Who reads what; made once a step for each window."""
    name = f"reach {window} {device}"
    if name not in line.derived:
        line.derived[name] = parted(line, window, device)
    found: tuple[list[Alone], list[Together]] = line.derived[name]
    return found


def parted(line: Line, window: int | None, device: torch.device) -> tuple[list[Alone], list[Together]]:
    """Rows that take one token go with those that read up to twice as much; the others are alone."""
    classes: defaultdict[int, list[Span]] = defaultdict(list)
    lone = []
    for span in line.spans:
        if span.end - span.start == 1:
            classes[(min(span.length, window or span.length) - 1).bit_length()].append(span)
        else:
            lone.append(span)
    groups = [spans for spans in classes.values() if len(spans) > 1]
    lone += [span for spans in classes.values() if len(spans) == 1 for span in spans]
    alone = [by_itself(span, line.size, window, device) for span in lone]
    return alone, [in_company(spans, line.size, window, device) for spans in groups]


def by_itself(span: Span, size: int, window: int | None, device: torch.device) -> Alone:
    queries = span.end - span.start
    low = first_seen(span, window)
    first, held = pages_from(span, low, size)
    run = held == list(range(held[0], held[0] + len(held)))
    pages = slice(held[0], held[0] + len(held)) if run else torch.tensor(held, device=device)
    low, high = low - first, span.length - first
    mask = None
    if queries > 1 and (window is not None or span.length > queries):
        at = torch.arange(high - queries, high, device=device)[:, None]
        column = torch.arange(low, high, device=device)
        mask = column <= at if window is None else (column <= at) & (column > at - window)
    return Alone(span.start, span.end, pages, low, high, mask)


def in_company(spans: list[Span], size: int, window: int | None, device: torch.device) -> Together:
    """What is short is filled up with its own last page, which is masked: another's may hold no numbers."""
    lows = [first_seen(span, window) for span in spans]
    read = [pages_from(span, low, size) for span, low in zip(spans, lows, strict=True)]
    widest = max(len(held) for _, held in read)
    pages = [page for _, held in read for page in held + held[-1:] * (widest - len(held))]
    first = torch.tensor([first for first, _ in read], device=device)[:, None]
    column = torch.arange(widest * size, device=device)
    low = torch.tensor(lows, device=device)[:, None] - first
    high = torch.tensor([span.length for span in spans], device=device)[:, None] - first
    mask = (column >= low) & (column < high)
    places = torch.tensor([span.start for span in spans], device=device)
    return Together(places, torch.tensor(pages, device=device), mask[:, None, None])


def first_seen(span: Span, window: int | None) -> int:
    """The first of a row's tokens that any of those it takes sees."""
    return 0 if window is None else max(0, span.length - (span.end - span.start) + 1 - window)


def pages_from(span: Span, low: int, size: int) -> tuple[int, list[int]]:
    """The pages that hold tokens `low` and later, and how many tokens are in pages before them."""
    first = low // size
    return first * size, list(span.pages[first : -(-span.length // size)])
