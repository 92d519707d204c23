"""What one answer has come to, folded from its events; the same for completions, chats and responses."""

from dataclasses import dataclass, field
from typing import Any

from inference.types import CallDelta, Event, Finished, Started, Token

# OpenAI's clients know no other reasons; a deadline and a server that stops cut an answer short, too.
REASONS = {"stop": "stop", "length": "length", "deadline": "length", "cancelled": "length"}


@dataclass(slots=True)
class Call:
    id: str
    name: str
    arguments: str = ""


@dataclass(slots=True)
class Said:
    """calls: by their numbers, the last perhaps cut short."""

    started: Started | None = None
    pieces: list[str] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)
    calls: dict[int, Call] = field(default_factory=dict)
    end: Finished | None = None

    def add(self, event: Event) -> None:
        match event:
            case Started():
                self.started = event
            case Token():
                self.pieces.append(event.text)
                self.tokens.append(event)
            case CallDelta():
                call = self.calls.setdefault(event.number, Call(call_id(event), event.name))
                call.arguments += event.arguments
            case Finished():
                self.pieces.append(event.text)
                self.end = event

    @property
    def begun(self) -> Started:
        assert self.started, "an answer starts before it is told"
        return self.started

    @property
    def ended(self) -> Finished:
        assert self.end, "an answer is whole when it has ended"
        return self.end

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def ids(self) -> list[int]:
        return [token.id for token in self.tokens]


def call_id(event: CallDelta) -> str:
    """As vLLM names a call."""
    return f"chatcmpl-tool-{event.id.removeprefix('call_')}"


def reason(end: Finished) -> dict[str, Any]:
    """Why an answer ended; stop_reason is the stop string or token that was met."""
    return {"finish_reason": REASONS[end.reason], "stop_reason": end.stop}
