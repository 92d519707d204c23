"""Formats rows of cells as lines with aligned columns."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest


def align_columns(rows: Sequence[Sequence[str]], num_text_columns: int) -> Iterator[str]:
    """Align the first `num_text_columns` columns left and the others right. A row may have fewer cells."""
    padded_rows = list(zip(*zip_longest(*rows, fillvalue=""), strict=True))
    widths = [max(map(len, column)) for column in zip(*padded_rows, strict=True)]
    for row in padded_rows:
        aligned = (
            text.ljust(width) if index < num_text_columns else text.rjust(width)
            for index, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(aligned).rstrip()
