"""Reads Parquet files, if the optional package pyarrow is installed."""

from collections.abc import Iterator
from typing import IO, Any

from inference.errors import error_line
from tuning.data.examples import InvalidDataset

PARQUET = "application/vnd.apache.parquet"
BATCH_ROWS = 256


def parquet_rows(file: IO[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows, numbered from 1. Raises InvalidDataset."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        rule = "a Parquet file needs the package pyarrow: install it (pip install pyarrow), or use JSONL"
        raise InvalidDataset(None, rule) from None
    number = 0
    try:
        for batch in ParquetFile(file).iter_batches(BATCH_ROWS):
            for row in batch.to_pylist():
                number += 1
                yield number, row
    except (ArrowException, OSError) as error:
        raise InvalidDataset(
            number or None, f"is not Parquet that can be read: {error_line(error)}"
        ) from None
