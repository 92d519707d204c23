"""Converts events to chat and completion responses, streamed or whole, and to responses of batches.

Knows events and a ProtocolVersion. Does not know framing or HTTP.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from api.accumulator import AccumulatedCall, Accumulator, finite_logprob
from api.llama_stack.errors import error_before_start, error_in_stream
from api.llama_stack.protocol.inference import (
    BatchChatResponse,
    BatchCompletionResponse,
    ChatChunk,
    ChatEvent,
    CompletionChunk,
    CompletionMessage,
    LlamaStackChatResponse,
    LlamaStackCompletionResponse,
    ResponseMetric,
    TextContent,
    TokenLogprobs,
    ToolCallDelta,
    UntypedToolCallDelta,
)
from api.llama_stack.versions import ProtocolVersion
from inference.events import CallDelta, Event, Finished, Started, Token

Delta = str | TextContent | ToolCallDelta | UntypedToolCallDelta


class ReplyWriter:
    """What the writers of completions and chats share: the accumulated events, and errors."""

    error_before_start = staticmethod(error_before_start)
    error_in_stream = staticmethod(error_in_stream)

    def __init__(self, version: ProtocolVersion, logprobs: bool) -> None:
        self.version = version
        self.logprobs = logprobs
        self.output = Accumulator()

    @property
    def token_logprobs(self) -> list[TokenLogprobs] | None:
        return format_logprobs(self.output.tokens) if self.logprobs else None


class CompletionReplyWriter(ReplyWriter):
    def chunk(self, event: Event) -> list[CompletionChunk]:
        self.output.add(event)
        match event:
            case Token() if self.logprobs:
                return [CompletionChunk(event.text, logprobs=format_logprobs([event]))]
            case Token() if event.text:
                return [CompletionChunk(event.text)]
            case Finished():
                held_chunks = [CompletionChunk(event.text)] if event.text else []
                return [*held_chunks, CompletionChunk("", stop_reason(self.output))]
            case _:
                return []

    def full_response(self) -> LlamaStackCompletionResponse:
        output, version = self.output, self.version
        return LlamaStackCompletionResponse(
            completion_message=self.message() if version.repeats_message else UNSET,
            content=output.text,
            stop_reason=stop_reason(output),
            logprobs=self.token_logprobs,
            metrics=response_metrics(output) if version.typed_deltas else UNSET,
        )

    def message(self) -> CompletionMessage:
        return CompletionMessage("assistant", self.output.text, stop_reason(self.output), [])


class ChatReplyWriter(ReplyWriter):
    def chunk(self, event: Event) -> list[ChatChunk]:
        is_continued = isinstance(event, CallDelta) and event.call_index in self.output.calls
        self.output.add(event)
        match event:
            case Started():
                return [self._chunk("start", self.version.delta_text(""))]
            case Token() if event.text or self.logprobs:
                logprobs = format_logprobs([event]) if self.logprobs else None
                return [self._chunk("progress", self.version.delta_text(event.text), logprobs)]
            case CallDelta():
                return self._call_chunks(event, is_continued)
            case Finished():
                return self._final_chunks(event)
            case _:
                return []

    def _call_chunks(self, event: CallDelta, is_continued: bool) -> list[ChatChunk]:
        call_delta = self.version.call_delta
        deltas: list[Delta] = [] if is_continued else [call_delta("", "started")]
        if event.arguments:
            deltas.append(call_delta(event.arguments, "in_progress"))
        if event.done:
            deltas.append(
                call_delta(self.version.tool_call(self.output.calls[event.call_index]), "succeeded")
            )
        return [self._chunk("progress", delta) for delta in deltas]

    def _final_chunks(self, event: Finished) -> list[ChatChunk]:
        """The text held back until the end, incomplete tool calls as failed, and the event `complete`."""
        version = self.version
        unfinished = [call.arguments for call in self.output.calls.values() if not call.done]
        deltas: list[Delta] = [version.delta_text(event.text)] if event.text else []
        deltas += [version.call_delta(arguments, "failed") for arguments in unfinished]
        end = self._chunk("complete", version.delta_text(""))
        end.event.stop_reason = stop_reason(self.output)
        if version.typed_deltas:
            end.metrics = response_metrics(self.output)
        return [*(self._chunk("progress", delta) for delta in deltas), end]

    def _chunk(self, event_type: str, delta: Delta, logprobs: list[TokenLogprobs] | None = None) -> ChatChunk:
        metrics = None if self.version.typed_deltas else UNSET
        return ChatChunk(metrics=metrics, event=ChatEvent(event_type, delta, logprobs))

    def full_response(self) -> LlamaStackChatResponse:
        metrics = response_metrics(self.output) if self.version.typed_deltas else UNSET
        return LlamaStackChatResponse(self.message(), self.token_logprobs, metrics)

    def message(self) -> CompletionMessage:
        output, version = self.output, self.version
        return CompletionMessage(
            "assistant",
            TextContent("text", output.text) if version.object_content else output.text,
            stop_reason(output),
            [version.tool_call(call) for call in complete_calls(output)],
        )


class BatchWriter:
    """A Writer with one writer per item of a batch. Batches are never streamed.

    response_type  BatchCompletionResponse or BatchChatResponse
    """

    error_before_start = staticmethod(error_before_start)
    error_in_stream = staticmethod(error_in_stream)

    def __init__(
        self,
        version: ProtocolVersion,
        writers: Sequence[CompletionReplyWriter | ChatReplyWriter],
        response_type: type[BatchCompletionResponse] | type[BatchChatResponse],
    ) -> None:
        self.version = version
        self.writers = writers
        self.response_type = response_type

    def chunk(self, event: Event) -> list[Any]:
        return self.writers[event.index].chunk(event)

    def full_response(self) -> BatchCompletionResponse | BatchChatResponse:
        """The responses of all items. Clients before 0.1 read the messages in `completion_message_batch`."""
        batch: Any = [writer.full_response() for writer in self.writers]
        messages = UNSET if self.version.typed_deltas else [writer.message() for writer in self.writers]
        return self.response_type(batch, messages)


def complete_calls(output: Accumulator) -> list[AccumulatedCall]:
    return [call for call in output.calls.values() if call.done]


def stop_reason(output: Accumulator) -> str:
    """`end_of_message` marks an answer that waits for a tool, or that a deadline or the server ended."""
    reason = output.end.finish_reason if output.end else "cancelled"
    if reason == "length":
        return "out_of_tokens"
    return "end_of_turn" if reason == "stop" and not complete_calls(output) else "end_of_message"


def response_metrics(output: Accumulator) -> list[ResponseMetric]:
    """The token counts; without an unknown number of prompt tokens and their total."""
    prompt, completion = output.num_prompt_tokens, output.finished_event.num_tokens
    counts = {"completion_tokens": completion}
    if prompt is not None:
        counts = {"prompt_tokens": prompt, **counts, "total_tokens": prompt + completion}
    return [ResponseMetric(name, count) for name, count in counts.items()]


def format_logprobs(tokens: Sequence[Token]) -> list[TokenLogprobs]:
    """The logprobs of the tokens and their alternatives. Tokens without a logprob are left out."""
    return [TokenLogprobs(_logprobs_by_text(token)) for token in tokens if token.logprob is not None]


def _logprobs_by_text(token: Token) -> dict[str, float]:
    """Text -> logprob. If texts are equal, the sampled token takes precedence, then the most probable one."""
    text = next((other.text for other in token.top_logprobs if other.id == token.id), token.text)
    assert token.logprob is not None, "the caller skips tokens without a logprob"
    by_text = {text: finite_logprob(token.logprob)}
    for other in token.top_logprobs:
        by_text.setdefault(other.text, finite_logprob(other.logprob))
    return by_text
