"""Reads the rows of a dataset's file as JSON objects, each with the line where it begins.

Formats: JSONL, a JSON array of objects, CSV, and Parquet where pyarrow is installed. JSONL and CSV are read
as streams, one row at a time. Knows no columns.
"""

import csv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from inference.finding import format_size
from tuning.data.examples import InvalidDataset
from tuning.data.parquet import PARQUET, parquet_rows
from tuning.data.strict_json import InvalidJson, array_items, parse_row_json

Row = dict[str, Any]
Rows = Iterator[tuple[int, Row]]

JSONL = "application/jsonl"
MAX_LINE_BYTES = 4_000_000  # a million tokens of text; parsing it takes some ten milliseconds
MAX_ARRAY_BYTES = 64_000_000  # of a JSON array, which is in memory as a whole
UTF_8_MARK = b"\xef\xbb\xbf"
# Beginnings of files that are no text in UTF-8, and the remedy.
SIGNATURES: Mapping[bytes, str] = {
    **dict.fromkeys((b"\xff\xfe", b"\xfe\xff", b"{\0", b"\0{"), "is UTF-16: save the file as UTF-8"),
    b"\x1f\x8b": "is gzip: decompress the file",
    b"\x28\xb5\x2f\xfd": "is zstd: decompress the file",
    b"BZh": "is bzip2: decompress the file",
    b"\xfd7zXZ\0": "is xz: decompress the file",
    b"PK\x03\x04": "is a zip archive: unpack it",
    b"PAR1": "is Parquet: write the rows as JSONL, one object a line",
}


def open_rows(path: Path, media_type: str = JSONL) -> Rows:
    """Yield (line, row) of each row.

    media_type  a key of READERS; its parameters, such as charset, have no effect

    Raises InvalidDataset, also at the end if there was no row, and for a file that is not there any more.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise InvalidDataset(None, f"the file cannot be read: {error.strerror}") from None
    with file:
        yield from read_rows(file, media_type)


def read_rows(file: IO[bytes], media_type: str) -> Rows:
    """As open_rows, for an open file."""
    kind = media_type.partition(";")[0].strip().lower()
    if kind not in READERS:
        known_types = ", ".join(READERS)
        raise InvalidDataset(None, f"the media type of a dataset must be one of {known_types}", media_type)
    has_rows = False
    for numbered_row in READERS[kind](file):
        has_rows = True
        yield numbered_row
    if not has_rows:
        raise InvalidDataset(None, "the dataset is empty: it must have at least one row")


def jsonl_rows(file: IO[bytes]) -> Rows:
    """One object a line; blank lines are passed over."""
    for line, text in enumerate(utf8_lines(file), 1):
        if text and not text.isspace():
            try:
                value = parse_row_json(text)
            except InvalidJson as error:
                hint = ", where the line ends: write each row on one line" if error.is_cut else ""
                raise InvalidDataset(line, f"{error}{hint}") from None
            yield line, check_object(value, line)


def array_rows(file: IO[bytes]) -> Rows:
    """The objects of a JSON array."""
    content = file.read(MAX_ARRAY_BYTES + 1)
    if len(content) > MAX_ARRAY_BYTES:
        limit = format_size(MAX_ARRAY_BYTES)
        raise InvalidDataset(None, f"a JSON array may have at most {limit}: write JSONL, one object a line")
    text, line, counted_chars = decode_utf8(without_mark(content), 1), 1, 0
    try:
        for start, value in array_items(text):
            line += text.count("\n", counted_chars, start)
            counted_chars = start
            yield line, check_object(value, line)
    except InvalidJson as error:
        raise InvalidDataset(1 + text.count("\n", 0, error.start), str(error)) from None


def csv_rows(file: IO[bytes]) -> Rows:
    """The first line names the columns; every value is text."""
    csv.field_size_limit(MAX_LINE_BYTES)
    reader = csv.reader(utf8_lines(file), strict=True)
    names: list[str] = []
    line = 1
    try:
        for values in reader:
            if values and names:
                yield line, csv_row(names, values, line)
            elif values:
                names = check_names(values)
            line = reader.line_num + 1
    except csv.Error as error:
        raise InvalidDataset(line, f"is not CSV: {error}") from None


def check_names(names: list[str]) -> list[str]:
    """The names of the columns. Raises InvalidDataset."""
    if len(set(names)) < len(names) or "" in names:
        raise InvalidDataset(1, "must give every column a name of its own", names)
    return names


def csv_row(names: list[str], values: list[str], line: int) -> Row:
    if len(values) != len(names):
        rule = f"must have {len(names)} values, as the first line has names ({', '.join(names)[:200]})"
        raise InvalidDataset(line, rule, len(values))
    return dict(zip(names, values, strict=True))


def utf8_lines(file: IO[bytes]) -> Iterator[str]:
    """The lines, without the byte order mark that some programs write. Raises InvalidDataset."""
    line = 1
    while content := file.readline(MAX_LINE_BYTES + 1):
        if len(content) > MAX_LINE_BYTES:
            raise InvalidDataset(line, f"is longer than {format_size(MAX_LINE_BYTES)}: divide the row")
        yield decode_utf8(without_mark(content) if line == 1 else content, line)
        line += 1


def without_mark(content: bytes) -> bytes:
    """The start of a file without a byte order mark. Raises InvalidDataset for what is no text in UTF-8."""
    for signature, rule in SIGNATURES.items():
        if content.startswith(signature):
            raise InvalidDataset(1, rule)
    return content.removeprefix(UTF_8_MARK)


def decode_utf8(content: bytes, first_line: int) -> str:
    """The text. Raises InvalidDataset for the line of the first byte that is not UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line_start = content.rfind(b"\n", 0, error.start) + 1
        line = first_line + content.count(b"\n", 0, error.start)
        position, value = error.start - line_start + 1, f"0x{content[error.start]:02x}"
        rule = f"is not UTF-8: its byte {position} is {value}: save the file as UTF-8"
        raise InvalidDataset(line, rule) from None


def check_object(value: Any, line: int) -> Row:
    if isinstance(value, dict):
        return value
    hint = ": an array of rows has the media type application/json" if isinstance(value, list) else ""
    raise InvalidDataset(line, f"must be a JSON object{hint}", value)


READERS: Mapping[str, Callable[[IO[bytes]], Rows]] = {
    JSONL: jsonl_rows,
    "application/x-ndjson": jsonl_rows,
    "application/json": array_rows,
    "text/csv": csv_rows,
    PARQUET: parquet_rows,
}
