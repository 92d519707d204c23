"""Reads a multipart/form-data body: its files go to where the caller has them written, piece by piece.

Knows forms. Does not know what the fields mean.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from flask import request
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.formparser import MultiPartParser

from api.body.large_json import WHOLE_BODY
from inference.errors import BadRequest, TooLarge

MIMETYPE = "multipart/form-data"
MAX_FIELD_BYTES = 1 << 20  # of all fields that are no files together
MAX_FIELDS = 100
PIECE_BYTES = 64 << 10  # less than MAX_FIELD_BYTES, which limits what the parser holds
HOW_TO_SEND = f"must be {MIMETYPE}"


class FormFile(NamedTuple):
    """A file of the form.

    stream: what `open_file` has returned, with the file's bytes.
    """

    filename: str
    stream: Any


class MultipartForm(NamedTuple):
    """The fields by name; the first field counts if a name is repeated."""

    fields: dict[str, str]
    files: dict[str, FormFile]


def read_form(open_file: Callable[[], Any]) -> MultipartForm:
    """The form of the current request. Raises BadRequest for a body that is none, and TooLarge.

    open_file  returns a writable object for the bytes of a file
    """
    boundary = request.mimetype_params.get("boundary", "")
    if request.mimetype != MIMETYPE:
        raise BadRequest(WHOLE_BODY, HOW_TO_SEND, request.mimetype or "no Content-Type")
    if not boundary:
        raise BadRequest(WHOLE_BODY, f"{HOW_TO_SEND} with a boundary in its Content-Type")
    parser = MultiPartParser(
        stream_factory=lambda *_, **__: open_file(),
        max_form_memory_size=MAX_FIELD_BYTES,
        max_form_parts=MAX_FIELDS,
        buffer_size=PIECE_BYTES,
    )
    try:
        fields, files = parser.parse(request.stream, boundary.encode("latin1"), request.content_length)
    except RequestEntityTooLarge:
        rule = f"{MAX_FIELDS} fields, and {MAX_FIELD_BYTES} bytes of fields that are no files"
        raise TooLarge(f"the body exceeds a limit of forms: {rule}") from None
    except (ValueError, LookupError) as error:
        raise BadRequest(WHOLE_BODY, f"{HOW_TO_SEND}: {error}") from None
    return MultipartForm(
        dict(fields), {name: FormFile(file.filename or "", file.stream) for name, file in files.items()}
    )
