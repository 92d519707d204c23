"""Compaction: the model summarizes a conversation, and one item takes the place of all turns but the user's.

Entry point: compact. The user's messages stay as they are, in front of the item, as in OpenAI's API.
"""

import json
import secrets
import time
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from flask import Response
from msgspec import Struct, structs

from api.accumulator import Accumulator
from api.hooks.concurrency_limit import acquire_permit
from api.openai.errors import InvalidBody, error_before_start, error_in_stream
from api.openai.protocol.errors import ErrorResponse
from api.openai.requests.parse import chat_request, read_request
from api.openai.responses.context import resolve_context
from api.openai.responses.errors import named_as_in_responses, rename_field
from api.openai.responses.parse import to_chat_request
from api.openai.responses.protocol import InputItem, ResponsesRequest, ResponseUsage
from api.openai.responses.summary import encode_summary
from api.openai.responses.writer import response_usage
from api.openapi.operation import Operation
from api.response import respond
from api.reworded_stream import RewordedStream
from api.store.tables import StoredItem
from inference.events import Event
from inference.models import Models
from settings.groups import ServerSettings

MAX_SUMMARY_TOKENS = 1024
CONTEXT_SHARE = 4  # the summary takes at most one part in so many of the context
INSTRUCTION = (
    "Summarize the conversation so far for an assistant that will continue it without having read it. Keep "
    "the goals, the decisions, the facts, the names, the results of tools and what is left to do. Write the "
    "summary alone."
)


class CompactionRequest(ResponsesRequest, kw_only=True):
    """A conversation to compact. The fields are those of a response; a model must be named."""

    model: str


class CompactionResponse(Struct, kw_only=True):
    """output: the user's messages, then an item of the type compaction: the input of the next response"""

    id: str
    object: Literal["response.compaction"] = "response.compaction"
    created_at: int
    output: list[dict[str, Any]]
    usage: ResponseUsage


COMPACT = Operation(
    "Compact a conversation",
    "The model summarizes it. The beginning of a conversation that is too long is left out.",
    CompactionRequest,
    CompactionResponse,
    error=ErrorResponse,
    takes_permit=True,
)


@named_as_in_responses()
def compact(models: Models, settings: ServerSettings) -> Response:
    body = read_request(CompactionRequest, strict=True)
    served = models.resolve(body.model)
    info = served.card.info
    context = resolve_context(body)
    all_items = context.all_items()
    if not all_items:
        raise InvalidBody("input is required: there is nothing to compact", "input")
    request = structs.replace(
        context.body,
        input=[*context.body.items, InputItem(role="user", content=INSTRUCTION)],
        truncation="auto",
        max_output_tokens=min(MAX_SUMMARY_TOKENS, (info.context or MAX_SUMMARY_TOKENS) // CONTEXT_SHARE),
    )
    generation_request = chat_request(to_chat_request(request, {}), info, settings, "input")
    acquire_permit()
    stream = served.generate(replace(generation_request, reject_if_too_long=False))
    return respond(RewordedStream(stream, rename_field), CompactionWriter(all_items), None)


@dataclass(slots=True)
class CompactionWriter:
    """A Writer of one compaction, which is never streamed. items: the conversation, oldest first"""

    items: list[StoredItem]
    summary: Accumulator = field(default_factory=Accumulator)

    error_before_start = staticmethod(error_before_start)
    error_in_stream = staticmethod(error_in_stream)

    def chunk(self, event: Event) -> list[Any]:
        self.summary.add(event)
        return []

    def full_response(self) -> CompactionResponse:
        items = [json.loads(item.value) for item in self.items]
        messages = [item for item in items if item["type"] == "message" and item.get("role") == "user"]
        compaction = {
            "id": f"cmp_{secrets.token_hex(16)}",
            "type": "compaction",
            "encrypted_content": encode_summary(self.summary.text),
        }
        return CompactionResponse(
            id=f"resp_{secrets.token_hex(16)}",
            created_at=int(time.time()),
            output=[*messages, compaction],
            usage=response_usage(self.summary),
        )
