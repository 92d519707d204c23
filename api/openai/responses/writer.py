"""From events to a response, streamed and whole: both fold the same events into the same items."""

import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from api.openai.errors import envelope, failed
from api.openai.logprobs import Scores
from api.openai.responses.bodies import ResponsesBody
from api.openai.responses.items import Entries, Events, FunctionCall, Message
from api.openai.usage import Usage
from api.openai.words import REASONS
from api.stream import SSE, Framing
from inference.errors import ServerError
from inference.types import CallDelta, Event, Finished, Started, Token

NAMED_EVENTS = Framing(
    SSE.mimetype, lambda event: b"event: %b\n%b" % (event["type"].encode(), SSE.encode(event))
)


@dataclass(slots=True)
class ResponseWriter:
    """model     its name in the reply
    logprobs  alternatives to show with each token; None: no logprobs
    held      tokens whose text is not told yet: their logprobs come with the next text
    """

    body: ResponsesBody
    model: str
    fingerprint: str
    logprobs: int | None = None
    id: str = field(default_factory=lambda: f"resp_{secrets.token_hex(16)}")
    created: int = field(default_factory=lambda: int(time.time()))
    items: list[Message | FunctionCall] = field(default_factory=list)
    open: Message | FunctionCall | None = None
    held: list[Token] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    end: Finished | None = None
    told: int = 0

    failed = staticmethod(failed)

    def chunk(self, event: Event) -> list[Any]:
        self.usage.add(event)
        match event:
            case Started():
                named = ("response.created", "response.in_progress")
                events = [{"type": name, "response": self.response()} for name in named]
            case Token():
                self.held.append(event)
                events = self._said(event.text)
            case CallDelta():
                events = self._called(event)
            case Finished():
                events = self._ended(event)
        return [self._numbered(event) for event in events]

    def whole(self) -> dict[str, Any]:
        return self.response()

    def broken(self, error: ServerError) -> list[Any]:
        """OpenAI's client looks for `error`, others for what stands beside it."""
        told = envelope(error)
        said = {key: told["error"][key] for key in ("message", "param")} | {"code": told["error"]["type"]}
        return [self._numbered({"type": "error", **said, **told})]

    def response(self) -> dict[str, Any]:
        """The response as far as it has come."""
        cut = self.end is not None and REASONS[self.end.reason] != "stop"
        status = "incomplete" if cut else "completed" if self.end else "in_progress"
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "model": self.model,
            "output": [item.told() for item in self.items],
            "usage": self._usage() if self.end else None,
            "system_fingerprint": self.fingerprint,
            **_asked(self.body),
        }

    # Items -----------------------------------------------------------------------------------------------

    def _said(self, text: str) -> Events:
        if not text:
            return []
        events: Events = []
        if not isinstance(self.open, Message):
            events += self._open(Message(len(self.items)))
        assert isinstance(self.open, Message)
        return events + self.open.more(text, self._scores())

    def _called(self, event: CallDelta) -> Events:
        self.held.clear()
        events: Events = []
        if not isinstance(self.open, FunctionCall) or self.open.number != event.number:
            events += self._open(FunctionCall.begun(len(self.items), event))
        assert isinstance(self.open, FunctionCall)
        events += self.open.more(event.arguments) if event.arguments else []
        return events + (self._close() if event.done else [])

    def _ended(self, event: Finished) -> Events:
        """What was held back, and the end; an answer of nothing is an empty message."""
        events = self._said(event.text)
        if not self.items:
            events += self._open(Message(0))
        cut = REASONS[event.reason] != "stop"
        events += self._close("incomplete" if cut else "completed")
        self.end = event
        return [*events, {"type": f"response.{self.response()['status']}", "response": self.response()}]

    def _open(self, item: Message | FunctionCall) -> Events:
        events = self._close()
        self.items.append(item)
        self.open = item
        return events + item.opened()

    def _close(self, status: str = "completed") -> Events:
        item, self.open = self.open, None
        return item.closed(status) if item else []

    # What is told of tokens ------------------------------------------------------------------------------

    def _scores(self) -> Entries:
        held, self.held = self.held, []
        return [] if self.logprobs is None else Scores(self.logprobs).chat(held)["content"]

    def _usage(self) -> dict[str, Any]:
        whole = self.usage.whole()
        details = whole["prompt_tokens_details"] or {"cached_tokens": 0}
        return {
            "input_tokens": whole["prompt_tokens"],
            "input_tokens_details": {**details, "cache_write_tokens": 0},  # openai 3's client has it
            "output_tokens": whole["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": whole["total_tokens"],
        }

    def _numbered(self, event: dict[str, Any]) -> dict[str, Any]:
        self.told += 1
        return event | {"sequence_number": self.told - 1}


def _asked(body: ResponsesBody) -> dict[str, Any]:
    """What a response repeats of its request."""
    return {
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "metadata": body.metadata or {},
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "previous_response_id": None,
        "reasoning": body.reasoning or {"effort": None, "summary": None},
        "store": False,
        "background": False,
        "temperature": 1.0 if body.temperature is None else body.temperature,
        "text": {"format": body.text.format if body.text and body.text.format else {"type": "text"}},
        "tool_choice": body.tool_choice or "auto",
        "tools": body.tools or [],
        "top_logprobs": body.top_logprobs or 0,
        "top_p": 1.0 if body.top_p is None else body.top_p,
        "truncation": body.truncation or "disabled",
    }
