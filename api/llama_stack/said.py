"""What one answer has come to, folded from its events; the same for every generation of the protocol."""

from dataclasses import dataclass, field
from typing import Any

from api.logprobs import finite
from inference.types import CallDelta, Event, Finished, Started, Token, ToolCall

Scores = list[dict[str, Any]]


@dataclass(slots=True)
class PartialCall:
    id: str
    name: str
    arguments: str = ""
    done: bool = False

    def call(self) -> ToolCall:
        return ToolCall(self.id, self.name, self.arguments)


@dataclass(slots=True)
class Said:
    """logprobs: one entry per token; None where they were not asked for."""

    logprobs: Scores | None = None
    pieces: list[str] = field(default_factory=list)
    calls: dict[int, PartialCall] = field(default_factory=dict)
    prompt_tokens: int = 0
    end: Finished | None = None

    def add(self, event: Event) -> None:
        match event:
            case Started():
                self.prompt_tokens = event.prompt_tokens
            case Token():
                self.pieces.append(event.text)
                if self.logprobs is not None:
                    self.logprobs += scores(event)
            case CallDelta():
                call = self.calls.setdefault(event.number, PartialCall(event.id, event.name))
                call.arguments += event.arguments
                call.done = event.done
            case Finished():
                self.pieces.append(event.text)
                self.end = event

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def complete_calls(self) -> list[ToolCall]:
        return [call.call() for call in self.calls.values() if call.done]

    @property
    def stop_reason(self) -> str:
        """`end_of_message` is a partial answer: it waits for a tool, or its deadline or we cut it off."""
        reason = self.end.reason if self.end else "cancelled"
        if reason == "length":
            return "out_of_tokens"
        return "end_of_turn" if reason == "stop" and not self.complete_calls else "end_of_message"

    @property
    def metrics(self) -> list[dict[str, Any]]:
        completion = self.end.tokens if self.end else 0
        counts = {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": completion,
            "total_tokens": self.prompt_tokens + completion,
        }
        return [{"metric": name, "value": count, "unit": None} for name, count in counts.items()]


def scores(token: Token) -> Scores:
    """The log-probabilities of the token and its alternatives by their texts; empty where there is none.

    Different tokens may have one text: the chosen token's entry is kept, then the most probable's.
    """
    if token.logprob is None:
        return []
    text = next((other.text for other in token.top if other.id == token.id), token.text)
    by_text = {text: finite(token.logprob)}
    for other in token.top:
        by_text.setdefault(other.text, finite(other.logprob))
    return [{"logprobs_by_token": by_text}]
