"""The answers of one response: which have started, how many tokens they have, and which have finished.

Common to the readers of all kinds of upstreams. An answer without a finish reason is never a whole one.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from inference.events import Event, Finished, FinishReason, PromptToken, Started, Token
from inference.remote.failures import broken
from inference.remote.upstreams.tool_calls import ToolCallReader

LOWEST_LOGPROB = -9999.0  # of servers whose JSON has no minus infinity
UNKNOWN_ID = -1  # of a token whose id the server does not say
MAX_COUNT = 1 << 31  # of tokens, and of ids of tokens
FINISH_REASONS: Mapping[str, FinishReason] = {
    **dict.fromkeys(
        (
            "stop",
            "eos_token",
            "stop_sequence",
            "end_of_turn",
            "end_of_message",
            "tool_calls",
            "function_call",
        ),
        "stop",
    ),
    **dict.fromkeys(("length", "out_of_tokens", "max_tokens"), "length"),
    "content_filter": "filtered",
}
BROKEN_REASONS = frozenset({"abort", "error"})
MAX_REASON_CHARS, MAX_UNKNOWN_REASONS = 40, 100  # that are logged, and remembered as such
NO_TEXTS: Mapping[int, str] = {}
TIMEOUT = "timeout"  # the stop_reason of a Hearth that ended an answer at a deadline, with the reason length

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Choice:
    """The answer `index`. Its end is held back until the response ends, as token counts may follow it.

    last_tokens  that came together with the end: they are passed on together with it
    """

    index: int
    calls: ToolCallReader
    num_tokens: int = 0
    num_reasoning_tokens: int = 0
    last_tokens: Sequence[Token] = ()
    end: Finished | None = None

    def count(self, token: Token) -> None:
        self.num_tokens += 1
        self.num_reasoning_tokens += bool(token.reasoning)


@dataclass(slots=True)
class Choices:
    """The answers of one response to a request for `indices`.

    model              the model in messages
    prompt_tokens      None: the upstream has not said
    completion_tokens  of all answers together; None: count the tokens
    reasoning_tokens   likewise
    """

    model: str
    indices: tuple[int, ...]
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    _choices: dict[int, Choice] = field(default_factory=dict)

    @property
    def are_finished(self) -> bool:
        return len(self._choices) == len(self.indices) and all(each.end for each in self._choices.values())

    def is_finished(self, index: int) -> bool:
        choice = self._choices.get(index)
        return choice is not None and choice.end is not None

    def note_counts(
        self, *, prompt: Any = None, completion: Any = None, cached: Any = None, reasoning: Any = None
    ) -> None:
        """Note the token counts that the upstream tells; None: it does not. Raises UpstreamFailure."""
        if not all(count is None or is_count(count) for count in (prompt, completion, cached, reasoning)):
            raise broken(self.model, "a number of tokens is no count")
        self.prompt_tokens = self.prompt_tokens if prompt is None else prompt
        self.completion_tokens = self.completion_tokens if completion is None else completion
        self.cached_tokens = cached or self.cached_tokens
        self.reasoning_tokens = self.reasoning_tokens if reasoning is None else reasoning

    def start(
        self,
        index: int,
        prompt_token_ids: tuple[int, ...] = (),
        prompt_logprobs: tuple[PromptToken, ...] = (),
    ) -> list[Event]:
        """Started, if the answer had not started. Raises UpstreamFailure for an index beyond the request."""
        if index in self._choices:
            return []
        if index not in self.indices:
            raise broken(self.model, "it has more answers than were requested")
        if not all(map(is_count, prompt_token_ids)):
            raise broken(self.model, "the ids of the prompt are no token ids")
        self._choices[index] = Choice(index, ToolCallReader(self.model, index))
        cached_tokens = self.cached_tokens or 0
        return [Started(index, self.prompt_tokens, cached_tokens, prompt_token_ids, prompt_logprobs)]

    def tokens(self, tokens: Sequence[Token]) -> list[Event]:
        """The tokens, counted. Raises UpstreamFailure if a field has another type."""
        self._check(tokens)
        for token in tokens:
            self._choices[token.index].count(token)
        return [*tokens]

    def calls(self, index: int) -> ToolCallReader:
        return self._choices[index].calls

    def end(
        self,
        index: int,
        reason: str,
        stop: str | int | None = None,
        *,
        last_tokens: Sequence[Token] = (),
        text: str = "",
        seed: int | None = None,
    ) -> list[Event]:
        """Note the finish reason, and complete the last tool call. Raises UpstreamFailure if it is broken."""
        if reason in BROKEN_REASONS:
            raise broken(self.model, f"it ended with {reason}")
        self._check(last_tokens)
        if not isinstance(stop, str | int | None) or not (seed is None or type(seed) is int):
            raise broken(self.model, "its end has the wrong form")
        finish_reason = self._finish_reason(reason, stop)
        choice = self._choices[index]
        for token in last_tokens:
            choice.count(token)
        choice.last_tokens = last_tokens
        stop = stop if finish_reason == "stop" else None
        choice.end = Finished(index, finish_reason, text, stop, seed=seed)
        return choice.calls.finish(is_whole=finish_reason == "stop")

    def finish(self) -> list[Event]:
        """Finished of every choice, with the token counts. Raises UpstreamFailure if one has not ended."""
        if not self.are_finished:
            raise broken(self.model, "it ended without a finish reason")
        return [event for choice in self._choices.values() for event in self._last_events(choice)]

    def finish_at_deadline(self, held_texts: Mapping[int, str] = NO_TEXTS) -> list[Event]:
        """The end of every answer at the request's deadline; finished answers keep their reasons.

        held_texts  by answer: text that was held back
        """
        events: list[Event] = []
        for index in self.indices:
            events += self.start(index)
            choice = self._choices[index]
            choice.end = choice.end or Finished(index, "deadline", held_texts.get(index, ""))
            events += self._last_events(choice)
        return events

    def _finish_reason(self, reason: str, stop: str | int | None) -> FinishReason:
        if reason not in FINISH_REASONS:
            note_unknown_reason(reason[:MAX_REASON_CHARS], self.model)
        finish_reason = FINISH_REASONS.get(reason, "stop")
        return "deadline" if finish_reason == "length" and stop == TIMEOUT else finish_reason

    def _check(self, tokens: Sequence[Token]) -> None:
        if not all(map(is_valid, tokens)):
            raise broken(self.model, "a token has the wrong form")

    def _last_events(self, choice: Choice) -> list[Event]:
        assert choice.end is not None
        end = replace(
            choice.end,
            num_tokens=self._num_tokens(choice),
            num_reasoning_tokens=self._num_reasoning_tokens(choice),
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
        )
        return [*choice.last_tokens, end]

    def _num_tokens(self, choice: Choice) -> int:
        """The answer's tokens. What the upstream counts more than arrived belongs to the last one.

        llama.cpp counts one of several answers only.
        """
        if self.completion_tokens is None or choice.index != max(self._choices):
            return choice.num_tokens
        others = sum(each.num_tokens for each in self._choices.values() if each is not choice)
        least = choice.num_tokens if others else 0
        return max(least, self.completion_tokens - others)

    def _num_reasoning_tokens(self, choice: Choice) -> int:
        """The answer's tokens of reasoning. What the upstream counts more than arrived is the last one's."""
        if self.reasoning_tokens is None or choice.index != max(self._choices):
            return choice.num_reasoning_tokens
        others = sum(each.num_reasoning_tokens for each in self._choices.values() if each is not choice)
        return max(0, self.reasoning_tokens - others)


@lru_cache(MAX_UNKNOWN_REASONS)
def note_unknown_reason(reason: str, model: str) -> None:
    """Log a finish reason the first time."""
    log.info("event=unknown_finish_reason reason=%r model=%s", reason, model)


def is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < MAX_COUNT


def is_valid(token: Token) -> bool:
    """Whether the fields, which come from JSON, have their types."""
    return (
        isinstance(token.text, str)
        and isinstance(token.reasoning, str)
        and isinstance(token.spelling, str)
        and type(token.id) is int
        and -1 <= token.id < MAX_COUNT
        and all(
            isinstance(each.text, str) and isinstance(each.logprob, float | int)
            for each in token.top_logprobs
        )
    )


def known_logprob(value: float | None) -> float | None:
    """The logprob; None for NaN, infinity, and the numbers that stand for them."""
    is_known = value is not None and math.isfinite(value) and value > LOWEST_LOGPROB
    return value if is_known else None
