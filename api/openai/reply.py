"""The state that the writers of completions and chat completions share: options, outputs, usage.

Knows the fields that both responses have. chat_writer.py and completion_writer.py build the choices.
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from flask import g

from api.accumulator import AccumulatedCall, Accumulator, cut_reason
from api.hooks.request_log import make_request_id
from api.openai.logprobs import mean_logprob
from api.openai.protocol.generation import (
    CommonRequest,
    CompletionTokensDetails,
    PromptTokensDetails,
    UsageChunk,
    UsageInfo,
)
from inference.events import CallDelta, Event, Finished, Started, Token
from settings.groups import ServerSettings

# OpenAI's clients know stop and length. An answer that the server ended early has "length", and the cause in
# stop_reason.
FINISH_REASONS = {
    "stop": "stop",
    "length": "length",
    "deadline": "length",
    "cancelled": "length",
    "filtered": "content_filter",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyOptions:
    """The options of one response, from the request and the settings.

    created              Unix time
    n                    choices per prompt
    best_of              answers generated per prompt; the n best become choices
    num_prompts          prompts in the request
    logprobs             alternatives to report for each token; None: no logprobs
    prompt_logprobs      alternatives to report for each prompt token; None: no prompt logprobs
    max_tokens           limit per answer, if any: then the chunk of the last token also has the finish reason
    tokens_as_ids        logprobs name tokens as token_id:123
    return_token_ids     report the token ids of prompt and answer
    include_usage        a stream ends with a chunk that has the total usage
    continuous_usage     every chunk has the usage of its choice so far
    role_in_every_delta  every delta has a role and tool_calls, as TGI's own client requires
    include_reasoning    False: the response leaves the reasoning out
    stream_reasoning     False: a stream has the reasoning in one delta
    """

    id: str
    model: str
    fingerprint: str
    created: int
    n: int = 1
    best_of: int = 1
    num_prompts: int = 1
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    max_tokens: int | None = None
    tokens_as_ids: bool = False
    return_token_ids: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    role_in_every_delta: bool = False
    include_reasoning: bool = True
    stream_reasoning: bool = True

    @property
    def reports_tokens(self) -> bool:
        """Whether a chunk says more of a token than its text and reasoning."""
        return self.logprobs is not None or self.return_token_ids


def reply_options(body: CommonRequest, id_prefix: str, model: str, settings: ServerSettings) -> ReplyOptions:
    """The options that completions and chats read from the same fields. `model` is the name to report."""
    stream_options = body.stream_options
    include_usage = bool(stream_options and stream_options.include_usage)
    return ReplyOptions(
        id=f"{id_prefix}-{make_request_id(body.request_id or g.get('request_id'))}",
        model=model,
        fingerprint=fingerprint(settings),
        created=int(time.time()),
        n=body.n or 1,
        best_of=body.best_of or body.n or 1,
        prompt_logprobs=body.prompt_logprobs,
        tokens_as_ids=bool(body.return_tokens_as_token_ids),
        return_token_ids=bool(body.return_token_ids),
        include_usage=include_usage,
        continuous_usage=include_usage and bool(stream_options and stream_options.continuous_usage_stats),
    )


def fingerprint(settings: ServerSettings) -> str:
    return f"hearth-{settings.version}"


@dataclass(slots=True)
class ReplyState:
    """The accumulated outputs of one request, and its usage.

    object_name    the field `object` of a chunk
    outputs        answer index -> its Accumulator
    num_sent       answer index -> its tokens that were sent, or need no chunk
    common_fields  the fields that every response and chunk has
    """

    options: ReplyOptions
    object_name: str
    outputs: dict[int, Accumulator] = field(default_factory=partial(defaultdict, Accumulator))
    num_sent: dict[int, int] = field(default_factory=partial(defaultdict, int))
    common_fields: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.common_fields = {
            "id": self.options.id,
            "created": self.options.created,
            "model": self.options.model,
            "system_fingerprint": self.options.fingerprint,
        }

    def add(self, event: Event) -> None:
        """Record the event. The model that is reported is the one that answers."""
        self.outputs[event.index].add(event)
        if isinstance(event, Started) and event.model:
            self.common_fields["model"] = event.model

    def take_tokens(self, index: int, holds_back: bool = True) -> Iterator[Token]:
        """The unsent tokens of answer `index` that get a chunk now.

        holds_back  the newest token waits if it may be the last: it is then sent with the finish reason
        """
        tokens = self.outputs[index].tokens
        may_be_last = bool(tokens) and (tokens[-1].is_silent or len(tokens) == self.options.max_tokens)
        while self.num_sent[index] < len(tokens) - (holds_back and may_be_last):
            token = tokens[self.num_sent[index]]
            self.num_sent[index] += 1
            if self.options.reports_tokens or not token.is_silent:
                yield token

    def last_tokens(self, index: int) -> list[Token]:
        """The token to send in the chunk with the finish reason, if any."""
        return self.outputs[index].tokens[self.num_sent[index] :]

    def chunk_usage(self, index: int) -> UsageInfo | None:
        """The field `usage` of a chunk for answer `index`, if include_usage is set."""
        if not self.options.continuous_usage:
            return None
        prompt, end = self._prompt_output(index // self.options.best_of), self.outputs[index].end
        num_tokens = end.num_tokens if end else self.num_sent[index]
        num_reasoning_tokens = self.outputs[index].num_reasoning_tokens
        return make_usage(
            prompt.num_prompt_tokens or 0, num_tokens, prompt.num_cached_tokens, num_reasoning_tokens
        )

    def usage_chunks(self) -> list[Any]:
        """A chunk with the total usage, if all answers have finished."""
        num_finished = sum(output.end is not None for output in self.outputs.values())
        if num_finished < self.options.best_of * self.options.num_prompts:
            return []
        return [UsageChunk(object=self.object_name, choices=[], **self.response_fields())]

    def response_fields(self) -> dict[str, Any]:
        """The fields of an unstreamed response, without choices."""
        return self.common_fields | {"usage": self._total_usage()}

    def best_outputs(self) -> list[Accumulator]:
        """The outputs that become choices: the n best of each prompt, prompt by prompt."""
        return [
            output for number in range(self.options.num_prompts) for output in self._best_of_prompt(number)
        ]

    def _best_of_prompt(self, number: int) -> list[Accumulator]:
        outputs = self._outputs_of_prompt(number)
        if self.options.best_of == self.options.n:
            return outputs
        return sorted(outputs, key=lambda each: mean_logprob(each.tokens), reverse=True)[: self.options.n]

    def _outputs_of_prompt(self, number: int) -> list[Accumulator]:
        best_of = self.options.best_of
        return [self.outputs[index] for index in range(number * best_of, (number + 1) * best_of)]

    def _total_usage(self) -> UsageInfo:
        """The tokens of each prompt once, and those of every answer."""
        prompts = [self._prompt_output(number) for number in range(self.options.num_prompts)]
        return make_usage(
            sum(prompt.num_prompt_tokens or 0 for prompt in prompts),
            sum(output.num_tokens for output in self.outputs.values()),
            sum(prompt.num_cached_tokens for prompt in prompts),
            sum(output.num_reasoning_tokens for output in self.outputs.values()),
        )

    def _prompt_output(self, number: int) -> Accumulator:
        """The prompt's first answer that has started, else one without tokens."""
        for output in self._outputs_of_prompt(number):
            if output.started:
                return output
        return Accumulator()


def make_usage(prompt: int, completion: int, cached: int = 0, reasoning: int = 0) -> UsageInfo:
    """All counts are in tokens.

    cached     part of `prompt` that was taken from the prefix cache
    reasoning  part of `completion`
    """
    usage = UsageInfo(prompt, prompt + completion, completion, PromptTokensDetails(cached))
    if reasoning:
        usage.completion_tokens_details = CompletionTokensDetails(reasoning)
    return usage


def tool_call_id(call: AccumulatedCall | CallDelta) -> str:
    """The call's id in vLLM's format."""
    return f"chatcmpl-tool-{call.id.removeprefix('call_')}"


def finish_reason_fields(end: Finished) -> dict[str, Any]:
    """finish_reason, and stop_reason: what ended the answer if not an end token or a limit of the request.

    stop_reason is a stop string, a stop token id, or the reason of cut_reason.
    """
    stop_reason = cut_reason(end) if end.stop is None else end.stop
    return {"finish_reason": FINISH_REASONS[end.finish_reason], "stop_reason": stop_reason}
