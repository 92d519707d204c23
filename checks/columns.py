"""Rows of cells as lines whose columns line up. Knows nothing of what they say."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest


def columns(rows: Sequence[Sequence[str]], texts: int) -> Iterator[str]:
    """The first `texts` columns begin in line; the rest, figures, end in line. A row may be short."""
    whole = list(zip(*zip_longest(*rows, fillvalue=""), strict=True))
    widths = [max(map(len, column)) for column in zip(*whole, strict=True)]
    for row in whole:
        cells = (
            cell.ljust(width) if number < texts else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()
