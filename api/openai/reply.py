"""The state that the writers of completions and chat completions share: options, outputs, usage.

Knows the fields that both responses have. chat_writer.py and completion_writer.py build the choices.
"""

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from flask import g

from api.accumulator import AccumulatedCall, Accumulator
from api.openai.logprobs import mean_logprob
from api.openai.protocol.generation import CommonRequest, PromptTokensDetails, UsageChunk, UsageInfo
from api.request_log import make_request_id
from inference.types import CallDelta, Event, Finished, Started, Token
from settings.groups import ServerSettings

# OpenAI's clients know stop and length. An answer that a deadline or a shutdown ended reports length.
FINISH_REASONS = {"stop": "stop", "length": "length", "deadline": "length", "cancelled": "length"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyOptions:
    """The options of one response, from the request and the settings.

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
    role_in_every_delta  every delta has a role and tool_calls, as TGI's clients require
    created              Unix time
    """

    id: str
    model: str
    fingerprint: str
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
    created: int = field(default_factory=lambda: int(time.time()))

    def common_fields(self) -> dict[str, Any]:
        """The fields that every response and chunk has."""
        return {
            "id": self.id,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
        }


def reply_options(
    body: CommonRequest, prefix: str, model: str, settings: ServerSettings, **overrides: Any
) -> ReplyOptions:
    """`prefix` starts the id, `model` is the name to report; `overrides` are fields of ReplyOptions."""
    stream_options = body.stream_options
    include_usage = bool(stream_options and stream_options.include_usage)
    return ReplyOptions(
        id=f"{prefix}-{make_request_id(body.request_id or g.get('request_id'))}",
        model=model,
        fingerprint=fingerprint(settings),
        n=body.n or 1,
        best_of=body.best_of or body.n or 1,
        prompt_logprobs=body.prompt_logprobs,
        tokens_as_ids=bool(body.return_tokens_as_token_ids),
        return_token_ids=bool(body.return_token_ids),
        include_usage=include_usage,
        continuous_usage=include_usage and bool(stream_options and stream_options.continuous_usage_stats),
        **overrides,
    )


def fingerprint(settings: ServerSettings) -> str:
    return f"hearth-{settings.version}"


@dataclass(slots=True)
class ReplyState:
    """The accumulated outputs of one request, and its usage.

    object_name  the field `object` of a chunk
    outputs      answer index -> its Accumulator
    """

    options: ReplyOptions
    object_name: str
    outputs: dict[int, Accumulator] = field(default_factory=lambda: defaultdict(Accumulator))
    usage: "UsageCounter" = field(init=False)

    def __post_init__(self) -> None:
        self.usage = UsageCounter(self.options.best_of)

    def add(self, event: Event) -> Accumulator:
        """Add the event to the output of its answer; returns the output."""
        output = self.outputs[event.index]
        output.add(event)
        self.usage.add(event)
        return output

    def is_full(self, output: Accumulator) -> bool:
        """Whether the answer has max_tokens tokens: Finished follows, and vLLM sends both in one chunk."""
        return len(output.tokens) == self.options.max_tokens

    def last_tokens(self, output: Accumulator) -> list[Token]:
        """The token to send in the chunk with the finish reason, if any."""
        return output.tokens[-1:] if self.is_full(output) else []

    def chunk_fields(self, index: int) -> dict[str, Any]:
        """The fields of a chunk for answer `index`, without choices; with usage if requested."""
        fields = self.options.common_fields()
        if self.options.include_usage:
            fields["usage"] = self.usage.usage_of(index) if self.options.continuous_usage else None
        return fields

    def usage_chunks(self) -> list[Any]:
        """A chunk with the total usage, if requested and all answers have finished."""
        num_finished = sum(output.end is not None for output in self.outputs.values())
        is_last = num_finished == self.options.best_of * self.options.num_prompts
        if not (is_last and self.options.include_usage):
            return []
        return [UsageChunk(object=self.object_name, choices=[], **self.response_fields())]

    def response_fields(self) -> dict[str, Any]:
        """The fields of an unstreamed response, without choices."""
        return self.options.common_fields() | {"usage": self.usage.total_usage()}

    def best_outputs(self) -> list[Accumulator]:
        """The outputs that become choices: the n best of each prompt, prompt by prompt."""
        return [
            output for number in range(self.options.num_prompts) for output in self._best_of_prompt(number)
        ]

    def _best_of_prompt(self, number: int) -> list[Accumulator]:
        best_of = self.options.best_of
        outputs = [self.outputs[number * best_of + each] for each in range(best_of)]
        if best_of == self.options.n:
            return outputs
        return sorted(outputs, key=lambda each: mean_logprob(each.tokens), reverse=True)[: self.options.n]


@dataclass(slots=True)
class UsageCounter:
    """Counts the tokens of each prompt once, and those of every answer.

    answers_per_prompt  n: answer k to prompt i has the index i * n + k
    prompts             prompt index -> Started event of its first answer
    num_generated       answer index -> tokens generated
    """

    answers_per_prompt: int = 1
    prompts: dict[int, Started] = field(default_factory=dict)
    num_generated: dict[int, int] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        match event:
            case Started():
                self.prompts.setdefault(event.index // self.answers_per_prompt, event)
                self.num_generated[event.index] = 0
            case Token():
                self.num_generated[event.index] += 1
            case Finished():
                self.num_generated[event.index] = event.num_tokens

    def total_usage(self) -> UsageInfo:
        prompts = self.prompts.values()
        return make_usage(
            sum(prompt.prompt_tokens for prompt in prompts),
            sum(self.num_generated.values()),
            sum(prompt.cached_tokens for prompt in prompts),
        )

    def usage_of(self, index: int) -> UsageInfo:
        """The usage of one answer so far. A prompt whose computation has not started counts no tokens."""
        prompt = self.prompts.get(index // self.answers_per_prompt, Started(index, 0, 0))
        return make_usage(prompt.prompt_tokens, self.num_generated[index], prompt.cached_tokens)


def make_usage(prompt: int, completion: int, cached: int = 0) -> UsageInfo:
    """All counts are in tokens; `cached` is the part of `prompt` taken from the prefix cache."""
    return UsageInfo(prompt, prompt + completion, completion, PromptTokensDetails(cached) if cached else None)


def tool_call_id(call: AccumulatedCall | CallDelta) -> str:
    """The call's id in vLLM's format."""
    return f"chatcmpl-tool-{call.id.removeprefix('call_')}"


def finish_reason_fields(end: Finished) -> dict[str, Any]:
    """finish_reason and stop_reason, the stop string or stop token id that ended the answer, if any."""
    return {"finish_reason": FINISH_REASONS[end.finish_reason], "stop_reason": end.stop}
