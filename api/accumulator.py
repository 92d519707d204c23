"""Accumulates the events of one answer; streamed and whole responses are rendered from the same state.

Knows the event types. Does not know any dialect's JSON, nor whether the response is streamed.
"""

import math
from dataclasses import dataclass, field

from inference.events import CallDelta, Event, Finished, Started, Token

LOWEST_LOGPROB = -9999.0  # JSON has no minus infinity
# By Finished.finish_reason.
CUT_REASONS = {"deadline": "timeout", "cancelled": "abort", "filtered": "content_filter"}


@dataclass(slots=True)
class AccumulatedCall:
    """A tool call as received so far.

    arguments  JSON text; complete when `done` is true
    """

    id: str
    name: str
    arguments: str = ""
    done: bool = False


@dataclass(slots=True)
class Accumulator:
    """The state of one answer.

    calls  tool calls by CallDelta.call_index; when the answer ends early, the last call is incomplete
    """

    started: Started | None = None
    tokens: list[Token] = field(default_factory=list)
    calls: dict[int, AccumulatedCall] = field(default_factory=dict)
    end: Finished | None = None

    def add(self, event: Event) -> None:
        match event:
            case Started():
                self.started = event
            case Token():
                self.tokens.append(event)
            case CallDelta():
                call = self.calls.setdefault(event.call_index, AccumulatedCall(event.id, event.name))
                call.arguments += event.arguments
                call.done = event.done
            case Finished():
                self.end = event

    @property
    def started_event(self) -> Started:
        """The Started event; zero token counts if the answer ended in the queue, e.g. at its deadline."""
        return self.started or Started(self.finished_event.index, 0, 0)

    @property
    def num_prompt_tokens(self) -> int | None:
        """Tokens of the prompt; None: unknown. The end of the answer may correct its start."""
        known_at_end = self.end.prompt_tokens if self.end else None
        if known_at_end is not None:
            return known_at_end
        return self.started.prompt_tokens if self.started else 0

    @property
    def num_cached_tokens(self) -> int:
        """Tokens of the prompt that prefix caching supplied."""
        known_at_end = self.end.cached_tokens if self.end else None
        if known_at_end is not None:
            return known_at_end
        return self.started.cached_tokens if self.started else 0

    @property
    def finished_event(self) -> Finished:
        assert self.end, "the response has not finished"
        return self.end

    @property
    def num_tokens(self) -> int:
        """Generated tokens so far, special tokens included."""
        return self.end.num_tokens if self.end else len(self.tokens)

    @property
    def text(self) -> str:
        """The text of all tokens, then the text that was held back until Finished."""
        return "".join([token.text for token in self.tokens]) + (self.end.text if self.end else "")

    @property
    def reasoning(self) -> str:
        """The reasoning that is apart from the text, as `text` has that."""
        return "".join([token.reasoning for token in self.tokens]) + (self.end.reasoning if self.end else "")

    @property
    def num_reasoning_tokens(self) -> int:
        """Generated tokens of the reasoning; 0 before the end of the answer."""
        return self.end.num_reasoning_tokens if self.end else 0

    @property
    def ids(self) -> list[int]:
        return [token.id for token in self.tokens]


def cut_reason(end: Finished) -> str | None:
    """Why an answer ended early: "timeout" at REQUEST_TIMEOUT, "abort", "content_filter"; else None."""
    return CUT_REASONS.get(end.finish_reason)


def finite_logprob(logprob: float) -> float:
    """`logprob` clamped to [LOWEST_LOGPROB, 0]; NaN becomes LOWEST_LOGPROB. Rounding can exceed 0."""
    return LOWEST_LOGPROB if math.isnan(logprob) else min(0.0, max(logprob, LOWEST_LOGPROB))
