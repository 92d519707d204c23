"""Where the rows of a dataset come from: the request itself, a data: URI, or an uploaded file.

Nothing is fetched: an address of another machine, and a path on this one, are refused.
"""

import base64
import binascii
import csv
import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from inference.errors import BadRequest
from inference.untrusted_json import parse_json
from tuning.store.files import Files

URI_RULE = "must be a data: URI or the id of an uploaded file (file-…)"
MAX_SHOWN_CHARS = 60


def read_source(source: Mapping[str, Any], files: Files) -> Iterator[Any]:
    """The rows of {"type": "rows", "rows": […]} or {"type": "uri", "uri": …}. Raises BadRequest."""
    if source.get("type") == "rows" or "rows" in source:
        rows = source.get("rows")
        if not isinstance(rows, list):
            raise BadRequest("source.rows", "must be a list of objects", rows)
        return iter(rows)
    uri = source.get("uri")
    if not isinstance(uri, str):
        raise BadRequest("source.type", "must be rows, with rows, or uri, with uri", source.get("type"))
    if uri.startswith("data:"):
        return read_data_uri(uri)
    if uri.startswith("file-"):
        return read_json_lines(files.content(uri).read_bytes())
    raise BadRequest("source.uri", URI_RULE, uri[:MAX_SHOWN_CHARS])


def read_data_uri(uri: str) -> Iterator[Any]:
    """The rows in a data: URI of RFC 2397. Raises BadRequest."""
    head, comma, encoded = uri.removeprefix("data:").partition(",")
    media_type, *parameters = head.split(";")
    reader = READERS.get(media_type)
    if not comma or reader is None:
        rule = f"must be data:TYPE[;base64],… with a TYPE of {', '.join(READERS)}"
        raise BadRequest("source.uri", rule, uri[:MAX_SHOWN_CHARS])
    try:
        content = (
            base64.b64decode(encoded, validate=True) if "base64" in parameters else unquote_to_bytes(encoded)
        )
        return reader(content)
    except (binascii.Error, ValueError) as error:
        raise BadRequest("source.uri", f"cannot be read as {media_type}: {error}") from None


def read_csv(content: bytes) -> Iterator[Any]:
    """One object a line, by the names of the first line."""
    reader = csv.DictReader(io.StringIO(content.decode("utf-8-sig")), strict=True)
    try:
        rows = list(reader)
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from None
    if any(None in row or None in row.values() for row in rows):
        raise ValueError("a line has more or fewer values than the first line has names")
    return iter(rows)


def read_json_lines(content: bytes) -> Iterator[Any]:
    return iter([parse_json(line) for line in content.decode("utf-8-sig").split("\n") if line.strip()])


def read_json(content: bytes) -> Iterator[Any]:
    """A list of objects."""
    rows = parse_json(content)
    if not isinstance(rows, list):
        raise ValueError("it is not a list of objects")
    return iter(rows)


READERS: Mapping[str, Callable[[bytes], Iterator[Any]]] = {
    "text/csv": read_csv,
    "application/jsonl": read_json_lines,
    "application/json": read_json,
}
