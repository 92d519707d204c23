"""The JSON of a batch."""

from api.batches.types import WINDOW, BatchError, BatchJob, TokenUsage
from api.openai.batches.protocol import (
    BatchErrorObject,
    BatchErrors,
    BatchObject,
    BatchUsage,
    RequestCountsObject,
)
from api.openai.protocol.generation import CompletionTokensDetails, PromptTokensDetails


def batch_object(batch: BatchJob) -> BatchObject:
    order, counts, times = batch.order, batch.counts, batch.times
    return BatchObject(
        id=batch.id,
        endpoint=order.endpoint,
        model=batch.model,
        errors=BatchErrors([error_object(error) for error in batch.errors]) if batch.errors else None,
        input_file_id=order.input_file_id,
        completion_window=WINDOW,
        status=batch.status,
        output_file_id=batch.output_file_id,
        error_file_id=batch.error_file_id,
        created_at=batch.created,
        in_progress_at=times.get("in_progress"),
        expires_at=batch.expires,
        finalizing_at=times.get("finalizing"),
        completed_at=times.get("completed"),
        failed_at=times.get("failed"),
        expired_at=times.get("expired"),
        cancelling_at=times.get("cancelling"),
        cancelled_at=times.get("cancelled"),
        request_counts=RequestCountsObject(counts.total, counts.completed, counts.failed),
        usage=usage_object(batch.usage),
        metadata=dict(order.metadata) if order.metadata is not None else None,
    )


def error_object(error: BatchError) -> BatchErrorObject:
    return BatchErrorObject(error.code, error.message, error.param, error.line_number)


def usage_object(usage: TokenUsage) -> BatchUsage:
    return BatchUsage(
        input_tokens=usage.input,
        input_tokens_details=PromptTokensDetails(usage.cached),
        output_tokens=usage.output,
        output_tokens_details=CompletionTokensDetails(usage.reasoning),
        total_tokens=usage.input + usage.output,
    )
