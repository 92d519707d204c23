"""The JSON of /v1/batches."""

from typing import Any, Literal

from msgspec import Struct

from api.openai.protocol.errors import ErrorResponse
from api.openai.protocol.generation import CompletionTokensDetails, PromptTokensDetails
from api.openai.stored import DEFAULT_LIMIT, MAX_LIMIT, PAGE_PARAMETERS
from api.openapi.operation import Operation


class ExpiresAfter(Struct):
    anchor: Literal["created_at"]
    seconds: int


class CreateBatch(Struct):
    """A batch to create.

    input_file_id         a file with the purpose batch: JSON lines with custom_id, method, url and body
    endpoint              /v1/chat/completions, /v1/completions, /v1/embeddings or /v1/responses
    completion_window     must be 24h: requests that were not run by then have expired
    metadata              up to 16 pairs of text
    output_expires_after  seconds, 3600 to 2592000, after which the result files expire
    idempotency_key       a repetition with the same key gets the batch of the first request
    """

    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: dict[str, Any] | None = None
    output_expires_after: ExpiresAfter | None = None
    idempotency_key: str | None = None


class BatchErrorObject(Struct, rename={"line_number": "line"}):
    code: str
    message: str
    param: str | None
    line_number: int | None


class BatchErrors(Struct):
    data: list[BatchErrorObject]
    object: Literal["list"] = "list"


class RequestCountsObject(Struct):
    total: int
    completed: int
    failed: int


class BatchUsage(Struct):
    input_tokens: int
    input_tokens_details: PromptTokensDetails
    output_tokens: int
    output_tokens_details: CompletionTokensDetails
    total_tokens: int


class BatchObject(Struct, kw_only=True):
    id: str
    object: Literal["batch"] = "batch"
    endpoint: str
    model: str | None
    errors: BatchErrors | None
    input_file_id: str
    completion_window: str
    status: str
    output_file_id: str | None
    error_file_id: str | None
    created_at: int
    in_progress_at: int | None
    expires_at: int
    finalizing_at: int | None
    completed_at: int | None
    failed_at: int | None
    expired_at: int | None
    cancelling_at: int | None
    cancelled_at: int | None
    request_counts: RequestCountsObject
    usage: BatchUsage
    metadata: dict[str, str] | None


def _operation(summary: str, description: str = "", **fields: Any) -> Operation:
    return Operation(summary, description, error=ErrorResponse, **fields)


CREATE = _operation(
    "Create a batch of requests from a file",
    "They run beside other requests, and yield to them.",
    body=CreateBatch,
    response=BatchObject,
)
LIST = _operation(
    "List the batches, the newest first",
    query={
        "after": PAGE_PARAMETERS["after"],
        "limit": f"batches of a page, 1 to {MAX_LIMIT}; {DEFAULT_LIMIT} by default",
    },
)
GET = _operation("Show a batch", response=BatchObject)
CANCEL = _operation(
    "Cancel a batch", "The answers so far stay, and become its result files.", response=BatchObject
)
