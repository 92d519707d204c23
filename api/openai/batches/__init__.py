"""OpenAI's Batch API, with the idempotency key of Llama Stack's. Entry point: ROUTES."""

from flask import Response, g
from msgspec import to_builtins

from api.batches.access import require_batches
from api.batches.types import WINDOW, BatchJob, BatchOrder
from api.errors import json_response
from api.openai.batches.objects import batch_object
from api.openai.batches.protocol import CANCEL, CREATE, GET, LIST, CreateBatch
from api.openai.errors import InvalidParameter
from api.openai.requests.parse import read_request
from api.openai.stored import StoredRoute, check_metadata, list_of, page_query
from inference.errors import short


def create() -> Response:
    """Create a batch. Its file is checked later: what is wrong in it is in the batch."""
    body = read_request(CreateBatch, strict=True)
    if body.completion_window != WINDOW:
        rule = f"Invalid value: {short(body.completion_window)}. Supported values are: '{WINDOW}'."
        raise InvalidParameter(rule, "completion_window")
    check_metadata(body.metadata)
    order = BatchOrder(
        endpoint=body.endpoint,
        input_file_id=body.input_file_id,
        metadata=body.metadata,
        output_expires_s=body.output_expires_after.seconds if body.output_expires_after else None,
        idempotency_key=body.idempotency_key,
        creator=g.get("api_key_digest", b""),
    )
    return respond_with(require_batches().create(order))


def list_batches() -> Response:
    query = page_query()
    listing = require_batches().list(limit=query.limit, after=query.after)
    return list_of([to_builtins(batch_object(batch)) for batch in listing.values], listing.has_more)


def get(batch_id: str) -> Response:
    return respond_with(require_batches().get(batch_id))


def cancel(batch_id: str) -> Response:
    return respond_with(require_batches().cancel(batch_id))


def respond_with(batch: BatchJob) -> Response:
    return json_response(200, batch_object(batch))


ROUTES = (
    StoredRoute("POST", "/batches", create, CREATE),
    StoredRoute("GET", "/batches", list_batches, LIST),
    StoredRoute("GET", "/batches/<batch_id>", get, GET),
    StoredRoute("POST", "/batches/<batch_id>/cancel", cancel, CANCEL),
)
