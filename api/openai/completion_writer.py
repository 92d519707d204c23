"""Converts events to completions. Streamed and whole responses use the same accumulated outputs."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from msgspec import UNSET

from api.accumulator import Accumulator
from api.openai.errors import error_before_start, error_in_stream
from api.openai.logprobs import LogprobsFormatter, prompt_logprobs
from api.openai.protocol.completion import (
    CompletionChoice,
    CompletionChunkChoice,
    CompletionLogprobs,
    CompletionResponse,
    CompletionStreamResponse,
)
from api.openai.reply import ReplyOptions, ReplyState, finish_reason_fields
from inference.events import Event, Finished, PromptToken, Started, Token

Prompt = str | Sequence[int]


@dataclass(frozen=True, slots=True)
class PromptEcho:
    """The prompts of a request with `echo`.

    is_truncated  the request truncates its prompts
    decode        converts token ids to text
    """

    prompts: Sequence[Prompt]
    is_truncated: bool
    decode: Callable[[Sequence[int]], str]

    def text(self, prompt_index: int, ids: Sequence[int]) -> str:
        """The text of a prompt after truncation. Token ids and truncated texts are decoded from `ids`."""
        prompt = self.prompts[prompt_index]
        return prompt if isinstance(prompt, str) and not self.is_truncated else self.decode(ids)


class CompletionWriter:
    error_before_start = staticmethod(error_before_start)
    error_in_stream = staticmethod(error_in_stream)

    def __init__(self, options: ReplyOptions, echo: PromptEcho | None = None) -> None:
        self.options = options
        self.echo = echo
        self.state = ReplyState(options, "text_completion")
        self.logprob_cursors: dict[int, LogprobCursor] = defaultdict(partial(LogprobCursor, options))

    def chunk(self, event: Event) -> list[Any]:
        self.state.add(event)
        match event:
            case Started() if self.echo or self.options.return_token_ids:
                return [self._prompt_chunk(self.state.outputs[event.index])]
            case Token():
                return [
                    self._chunk(event.index, token.text, [token])
                    for token in self.state.take_tokens(event.index)
                ]
            case Finished():
                return self._last_chunks(event)
            case _:
                return []

    def full_response(self) -> CompletionResponse:
        outputs = enumerate(self.state.best_outputs())
        choices = [self._choice(index, output) for index, output in outputs]
        return CompletionResponse(choices=choices, **self.state.response_fields())

    def _chunk(
        self, index: int, text: str, tokens: Sequence[Token | PromptToken], **finish_reason: Any
    ) -> CompletionStreamResponse:
        choice = CompletionChunkChoice(
            index=index,
            text=text,
            logprobs=None if self.options.logprobs is None else self.logprob_cursors[index].advance(tokens),
            token_ids=[token.id for token in tokens] if self.options.return_token_ids else UNSET,
            **finish_reason,
        )
        chunk = CompletionStreamResponse(choices=[choice], **self.state.common_fields)
        if self.options.include_usage:
            chunk.usage = self.state.chunk_usage(index)
        return chunk

    def _prompt_chunk(self, output: Accumulator) -> CompletionStreamResponse:
        """The first chunk of an answer, with the echo and the prompt's token ids as requested."""
        started = output.started_event
        chunk = self._chunk(
            started.index, self._echo_text(output), started.prompt_logprobs if self.echo else ()
        )
        if self.options.return_token_ids:
            (choice,) = chunk.choices
            choice.token_ids, choice.prompt_token_ids = UNSET, list(started.prompt_token_ids)
        return chunk

    def _last_chunks(self, event: Finished) -> list[Any]:
        """A chunk with the finish reason and the last token, then one with the total usage if requested."""
        tokens = self.state.last_tokens(event.index)
        text = "".join([token.text for token in tokens]) + event.text
        last = self._chunk(event.index, text, tokens, **finish_reason_fields(event))
        return [last, *self.state.usage_chunks()] if self.options.include_usage else [last]

    def _choice(self, index: int, output: Accumulator) -> CompletionChoice:
        started, num_logprobs = output.started_event, self.options.prompt_logprobs
        prompt_tokens = started.prompt_logprobs if self.echo else ()
        has_ids = self.options.return_token_ids
        return CompletionChoice(
            index=index,
            text=self._echo_text(output) + output.text,
            logprobs=LogprobCursor(self.options).advance([*prompt_tokens, *output.tokens]),
            prompt_logprobs=(
                None if num_logprobs is None else prompt_logprobs(started.prompt_logprobs, num_logprobs)
            ),
            prompt_token_ids=list(started.prompt_token_ids) if has_ids else UNSET,
            token_ids=output.ids if has_ids else UNSET,
            **finish_reason_fields(output.finished_event),
        )

    def _echo_text(self, output: Accumulator) -> str:
        prompt_index = output.started_event.index // self.options.best_of
        return self.echo.text(prompt_index, output.started_event.prompt_token_ids) if self.echo else ""


@dataclass(slots=True)
class LogprobCursor:
    """Formats logprobs across the chunks of a choice. `offset` is where the next token's text begins."""

    options: ReplyOptions
    offset: int = 0

    def advance(self, tokens: Sequence[Token | PromptToken]) -> CompletionLogprobs | None:
        if self.options.logprobs is None or not tokens:
            return None
        formatter = LogprobsFormatter(self.options.logprobs, self.options.tokens_as_ids)
        start = self.offset
        self.offset += sum(map(len, formatter.token_texts(tokens)))
        return formatter.completion_logprobs(tokens, start)
