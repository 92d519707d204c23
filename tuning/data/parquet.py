"""Reads Parquet files, if the optional package pyarrow is installed."""

import math
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
                yield number, json_value(row)
    except (ArrowException, OSError) as error:
        raise InvalidDataset(
            number or None, f"is not Parquet that can be read: {error_line(error)}"
        ) from None


def json_value(value: Any) -> Any:
    """The value as JSON has it: dates are text; bytes, such as images, and NaN are null."""
    match value:
        case dict():
            return {str(name): json_value(each) for name, each in value.items()}
        case list() | tuple():
            return [json_value(each) for each in value]
        case float():
            return value if math.isfinite(value) else None
        case bytes():
            return None
        case None | str() | bool() | int():
            return value
    return str(value)
