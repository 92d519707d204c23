"""Converts events to a response. Streamed and whole responses accumulate the same items."""

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from api.accumulator import Accumulator, cut_reason
from api.errors import ErrorFormat
from api.openai.errors import envelope, error_before_start
from api.openai.logprobs import LogprobsFormatter
from api.openai.reply import FINISH_REASONS
from api.openai.responses.items import (
    MESSAGE,
    REASONING,
    CallItem,
    Events,
    LogprobEntries,
    TextItem,
    TextKind,
)
from api.openai.responses.protocol import (
    ConversationReference,
    Reasoning,
    ResponseFailure,
    ResponsesRequest,
    ResponsesResponse,
    ResponseUsage,
    Status,
    TextOptions,
)
from api.openai.responses.tools import CallableTools, echoed_tools
from api.response import SSE, Framing
from inference.errors import ServerError
from inference.events import CallDelta, Event, Finished, Started, Token

NAMED_EVENTS = Framing(
    SSE.mimetype, lambda event: b"event: %b\n%b" % (event["type"].encode(), SSE.encode(event))
)

# Llama Stack's field, which its clients require in these events. OpenAI's clients ignore it.
EVENTS_WITH_RESPONSE_ID = ("response.output_item.", "response.content_part.")
FAILURE_CODES = {400: "invalid_prompt", 429: "rate_limit_exceeded"}  # by status; others: server_error
# The fields of the request that a response repeats, and their values if the request has null.
REPEATED_FIELDS: dict[str, Any] = {
    "frequency_penalty": 0.0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "safety_identifier": None,
    "temperature": 1.0,
    "tool_choice": "auto",
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
}


@dataclass(slots=True)
class ResponseWriter:
    """A Writer of one response.

    model               the model name to report
    tools               the tools that the model may call
    logprobs            alternatives to report for each token; None: no logprobs
    created             Unix time
    end_time            Unix time of the end: that of the first call, for every writer of this response
    open_item           the last item while it grows; None after it was closed
    pending_tokens      tokens whose logprobs are sent with the next text
    is_stored           the response can be read again
    is_cancelled        a background response was cancelled
    is_warm_up          nothing is generated: the response has no item
    error_before_start  renders an error before the first event
    error               why the response failed
    num_events          events sent so far
    """

    body: ResponsesRequest
    model: str
    fingerprint: str
    tools: CallableTools = field(default_factory=dict)
    logprobs: int | None = None
    id: str = field(default_factory=lambda: f"resp_{secrets.token_hex(16)}")
    created: int = field(default_factory=lambda: int(time.time()))
    end_time: Callable[[], int] = field(default_factory=lambda: cache(lambda: int(time.time())))
    items: list[TextItem | CallItem] = field(default_factory=list)
    open_item: TextItem | CallItem | None = None
    pending_tokens: list[Token] = field(default_factory=list)
    started: Started | None = None
    end: Finished | None = None
    is_stored: bool = False
    is_cancelled: bool = False
    is_warm_up: bool = False
    error_before_start: ErrorFormat = error_before_start
    error: ServerError | None = None
    num_events: int = 0

    def chunk(self, event: Event) -> list[Any]:
        match event:
            case Started():
                self.started = event
                self.model = event.model or self.model
                names = ("response.created", "response.in_progress")
                events = [{"type": name, "response": self.response()} for name in names]
            case Token():
                self.pending_tokens.append(event)
                events = [*self._add_text(REASONING, event.reasoning), *self._add_text(MESSAGE, event.text)]
            case CallDelta():
                events = self._add_call_delta(event)
            case Finished():
                events = self._finish(event)
        return [self._numbered(event) for event in events]

    def full_response(self) -> ResponsesResponse:
        return self.response()

    def mark_unstored(self) -> None:
        self.is_stored = False

    def cancel(self) -> None:
        self.is_cancelled = True
        self._cut_open_item()

    def error_in_stream(self, error: ServerError) -> list[Any]:
        """An event of type error, and response.failed.

        OpenAI's client reads `error` in the first event, other clients read the fields around it. Codex reads
        only the second event.
        """
        body = envelope(error)
        details = {"message": body.error.message, "param": body.error.param, "code": body.error.type}
        event = {"type": "error", **details, "error": body.error, "error_type": body.error_type}
        self.error = error
        self._cut_open_item()
        failed = {"type": "response.failed", "response": self.response()}
        return [self._numbered(event), self._numbered(failed)]

    def response(self) -> ResponsesResponse:
        """The response as accumulated so far."""
        return ResponsesResponse(
            id=self.id,
            created_at=self.created,
            completed_at=self.end_time() if self._status == "completed" else None,
            status=self._status,
            error=_failure(self.error) if self.error else None,
            incomplete_details=_incomplete_details(self.end) if self.end else None,
            model=self.model,
            output=[item.to_json() for item in self.items],
            usage=response_usage(Accumulator(started=self.started, end=self.end)) if self.end else None,
            system_fingerprint=self.fingerprint,
            store=self.is_stored and (self.error is None or bool(self.body.background)),
            **_request_fields(self.body),
        )

    @property
    def _status(self) -> Status:
        if self.is_cancelled:
            return "cancelled"
        if self.error:
            return "failed"
        if not self.end:
            return "queued" if self.body.background and not self.started else "in_progress"
        return "completed" if FINISH_REASONS[self.end.finish_reason] == "stop" else "incomplete"

    def _add_text(self, kind: TextKind, text: str) -> Events:
        """The tokens of reasoning, and those of its markers, have no logprobs in a response."""
        if not text:
            return []
        events: Events = []
        item = self.open_item
        if not (isinstance(item, TextItem) and item.kind is kind):
            if isinstance(item, TextItem):
                del self.pending_tokens[:-1]
            item = TextItem(kind, len(self.items), self._next_item_key())
            events = self._open_item(item)
        return events + item.append(text, self._take_logprobs() if kind is MESSAGE else [])

    def _add_call_delta(self, event: CallDelta) -> Events:
        self.pending_tokens.clear()
        events: Events = []
        if not isinstance(self.open_item, CallItem) or self.open_item.call_index != event.call_index:
            item = CallItem.from_delta(len(self.items), self._next_item_key(), event, self.tools)
            events += self._open_item(item)
        assert isinstance(self.open_item, CallItem)
        events += self.open_item.append(event.arguments) if event.arguments else []
        return events + (self._close_item() if event.done else [])

    def _finish(self, event: Finished) -> Events:
        """Add the text held back, close the item, end the response. An empty answer has one message."""
        events = [*self._add_text(REASONING, event.reasoning), *self._add_text(MESSAGE, event.text)]
        if not (self.items or self.is_warm_up):
            events += self._open_item(TextItem(MESSAGE, 0, self._next_item_key()))
        self.end = event
        events += self._close_item(self._status)
        return [*events, {"type": f"response.{self._status}", "response": self.response()}]

    def _next_item_key(self) -> str:
        """The random part of the next item's id: the same for every writer of this response."""
        return hashlib.sha256(f"{self.id} {len(self.items)}".encode()).hexdigest()[:32]

    def _open_item(self, item: TextItem | CallItem) -> Events:
        events = self._close_item()
        self.items.append(item)
        self.open_item = item
        return events + item.open()

    def _close_item(self, status: str = "completed") -> Events:
        item, self.open_item = self.open_item, None
        return item.close(status) if item else []

    def _cut_open_item(self) -> None:
        if self.open_item:
            self.open_item.status = "incomplete"

    def _take_logprobs(self) -> LogprobEntries:
        tokens, self.pending_tokens = self.pending_tokens, []
        return [] if self.logprobs is None else LogprobsFormatter(self.logprobs).chat_logprobs(tokens).content

    def _numbered(self, event: dict[str, Any]) -> dict[str, Any]:
        """The event with its sequence number, and for items and their parts the id of the response."""
        self.num_events += 1
        id = {"response_id": self.id} if event["type"].startswith(EVENTS_WITH_RESPONSE_ID) else {}
        return event | id | {"sequence_number": self.num_events - 1}


def response_usage(counts: Accumulator) -> ResponseUsage:
    """The tokens of an answer that has ended. One that ended in the queue has no prompt tokens."""
    input_tokens = counts.num_prompt_tokens or 0
    return ResponseUsage(
        input_tokens=input_tokens,
        input_tokens_details={"cached_tokens": counts.num_cached_tokens, "cache_write_tokens": 0},
        output_tokens=counts.num_tokens,
        output_tokens_details={"reasoning_tokens": counts.num_reasoning_tokens},
        total_tokens=input_tokens + counts.num_tokens,
    )


def _incomplete_details(end: Finished) -> dict[str, str] | None:
    """Why the response is incomplete; None: it is complete."""
    if FINISH_REASONS[end.finish_reason] == "stop":
        return None
    return {"reason": cut_reason(end) or "max_output_tokens"}


def _failure(error: ServerError) -> ResponseFailure:
    return ResponseFailure(FAILURE_CODES.get(error.status, "server_error"), envelope(error).error.message)


def _request_fields(body: ResponsesRequest) -> dict[str, Any]:
    """REPEATED_FIELDS of the body, and those that are repeated in another form."""
    values = {name: getattr(body, name) for name in REPEATED_FIELDS}
    return {
        "background": bool(body.background),
        "conversation": ConversationReference(body.conversation_id) if body.conversation_id else None,
        "reasoning": body.reasoning or Reasoning(),
        "text": _text_options(body.text),
        "tools": echoed_tools(body.tools or ()),
    } | {name: REPEATED_FIELDS[name] if value is None else value for name, value in values.items()}


def _text_options(options: TextOptions | None) -> dict[str, Any]:
    format = options.format if options and options.format else {"type": "text"}
    return {"format": format} | ({"verbosity": options.verbosity} if options and options.verbosity else {})
