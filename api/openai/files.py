"""OpenAI's Files API over the files of the tuning service. Entry point: make_routes."""

from contextlib import ExitStack, closing
from typing import Any, Literal

from flask import Response, request
from msgspec import Struct, to_builtins

from api.body.file_body import FileBody
from api.body.multipart import read_form
from api.errors import json_response
from api.hooks.tuning_access import require_service
from api.openai.errors import InvalidParameter
from api.openai.protocol.errors import ErrorResponse
from api.openai.stored import PAGE_PARAMETERS, StoredRoute, deleted_response, list_of, page_query
from api.openapi.operation import Operation
from inference.errors import BadRequest
from tuning.store.files import PURPOSES, Upload
from tuning.store.schema import File

MAX_LIMIT = 10_000
FORM_BYTES = 1 << 20  # of a form beside its file
ANCHOR = "created_at"
EXPIRY_FIELDS = {"anchor": "expires_after[anchor]", "seconds": "expires_after[seconds]"}
BINARY = "application/octet-stream"


class FileObject(Struct, kw_only=True):
    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    filename: str
    purpose: str
    status: str = "processed"
    expires_at: int | None
    status_details: str | None = None


class UploadForm(Struct, rename=EXPIRY_FIELDS):
    """The fields of the form. A file is deleted expires_after[seconds], 3600 to 2592000, after its upload.

    file     JSON lines for the purpose fine-tune
    purpose  fine-tune, assistants, batch, user_data, evals or vision
    """

    file: str
    purpose: str
    anchor: Literal["created_at"] | None = None
    seconds: int | None = None


def create() -> Response:
    """Store the file of a form. Raises BadRequest, which names the first line that is no JSON object."""
    files = require_service().files
    with ExitStack() as stack:

        def open_file() -> Upload:
            return stack.enter_context(closing(files.open_upload()))

        form_data = read_form(open_file)
        if "file" not in form_data.files:
            raise InvalidParameter("file is required: send a form with a file and its purpose", "file")
        if "purpose" not in form_data.fields:
            raise InvalidParameter(f"purpose is required: {', '.join(PURPOSES)}", "purpose")
        filename, upload = form_data.files["file"]
        expires_after_s = read_expiry(form_data.fields)
        return json_response(
            200, to_object(files.add(upload, filename, form_data.fields["purpose"], expires_after_s))
        )


def read_expiry(fields: dict[str, str]) -> int | None:
    """Raises BadRequest."""
    seconds, anchor = fields.get(EXPIRY_FIELDS["seconds"]), fields.get(EXPIRY_FIELDS["anchor"], ANCHOR)
    if anchor != ANCHOR:
        raise BadRequest(EXPIRY_FIELDS["anchor"], f"must be {ANCHOR}", anchor)
    if seconds is None:
        return None
    if not (seconds.isascii() and seconds.isdigit() and len(seconds) < 10):
        raise BadRequest(EXPIRY_FIELDS["seconds"], "must be a whole number", seconds)
    return int(seconds)


def list_files() -> Response:
    query = page_query(default_limit=MAX_LIMIT, max_limit=MAX_LIMIT)
    listing = require_service().files.list(
        request.args.get("purpose"), limit=query.limit, after=query.after, sort=query.order
    )
    return list_of([to_builtins(to_object(file)) for file in listing.values], listing.has_more)


def get(file_id: str) -> Response:
    return json_response(200, to_object(require_service().files.get(file_id)))


def content(file_id: str) -> Response:
    """The file's bytes."""
    body = FileBody(require_service().files.content(file_id))
    return Response(body, content_type=BINARY, direct_passthrough=True)


def delete(file_id: str) -> Response:
    """Raises BadRequest if a job still needs the file."""
    require_service().files.delete(file_id)
    return deleted_response("file", file_id)


def to_object(file: File) -> FileObject:
    return FileObject(
        id=file.id,
        bytes=file.num_bytes,
        created_at=file.created,
        filename=file.filename,
        purpose=file.purpose,
        expires_at=file.expires,
    )


def make_routes(max_file_bytes: int) -> tuple[StoredRoute, ...]:
    """The routes, with the largest file that they take."""
    page = PAGE_PARAMETERS | {
        "limit": f"files of a page, 1 to {MAX_LIMIT}; {MAX_LIMIT} by default",
        "purpose": "list the files with this purpose",
    }
    upload = _operation(
        "Upload a file", response=FileObject, form_data=UploadForm, body_limit=max_file_bytes + FORM_BYTES
    )
    return (
        StoredRoute("POST", "/files", create, upload),
        StoredRoute("GET", "/files", list_files, _operation("List the files", query=page)),
        StoredRoute("GET", "/files/<file_id>", get, _operation("Show a file", response=FileObject)),
        StoredRoute(
            "GET",
            "/files/<file_id>/content",
            content,
            _operation("Read the content of a file", media_type=BINARY),
        ),
        StoredRoute("DELETE", "/files/<file_id>", delete, _operation("Delete a file")),
    )


def _operation(summary: str, **fields: Any) -> Operation:
    return Operation(summary, error=ErrorResponse, **fields)
