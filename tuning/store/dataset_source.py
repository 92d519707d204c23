"""Where the rows of a dataset come from: the request, a data: URI, an uploaded file, or the Hub.

Nothing else is fetched: an address of another machine, and a path on this one, are refused.
"""

import base64
import binascii
import io
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from inference.errors import BadRequest
from tuning.data.examples import InvalidDataset
from tuning.data.hub_rows import SCHEME, FetchDataset, hub_rows
from tuning.data.rows import READERS, open_rows, read_rows
from tuning.store.files import Files

URI_RULE = f"must be a data: URI, the id of an uploaded file (file-…), or {SCHEME}datasets/owner/name"
DATA = "data:"
MAX_SHOWN_CHARS = 60


def read_source(source: Mapping[str, Any], files: Files, fetch: FetchDataset | None) -> Iterator[Any]:
    """The rows of {"type": "rows", "rows": […]} or {"type": "uri", "uri": …}. Raises BadRequest, NotFound.

    fetch  fetches a dataset of the Hub; None: there is none
    """
    if source.get("type") == "rows" or "rows" in source:
        rows = source.get("rows")
        if not isinstance(rows, list):
            raise BadRequest("source.rows", "must be a list of objects", rows)
        return iter(rows)
    uri = source.get("uri")
    if not isinstance(uri, str):
        raise BadRequest("source.type", "must be rows, with rows, or uri, with uri", source.get("type"))
    return uri_rows(uri, files, fetch)


def uri_rows(uri: str, files: Files, fetch: FetchDataset | None) -> Iterator[dict[str, Any]]:
    try:
        if uri[: len(DATA)].lower() == DATA:
            yield from data_rows(uri)
        elif uri.startswith("file-"):
            yield from (row for _, row in open_rows(files.content(uri)))
        elif uri.startswith(SCHEME) and fetch is not None:
            yield from hub_rows(uri, fetch)
        else:
            raise BadRequest("source.uri", URI_RULE, uri[:MAX_SHOWN_CHARS])
    except InvalidDataset as error:
        raise BadRequest("source.uri", f"cannot be read: {error.message}") from None


def data_rows(uri: str) -> Iterator[dict[str, Any]]:
    """The rows in a data: URI of RFC 2397. Raises BadRequest, InvalidDataset."""
    head, comma, encoded = uri[len(DATA) :].partition(",")
    media_type, *parameters = head.lower().split(";")
    if not comma or media_type not in READERS:
        rule = f"must be data:TYPE[;base64],… with a TYPE of {', '.join(READERS)}"
        raise BadRequest("source.uri", rule, uri[:MAX_SHOWN_CHARS])
    content = unquote_to_bytes(encoded)
    if "base64" in parameters:
        try:
            content = base64.b64decode(content, validate=True)
        except binascii.Error as error:
            raise BadRequest("source.uri", f"is not base64: {error}") from None
    yield from (row for _, row in read_rows(io.BytesIO(content), media_type))
