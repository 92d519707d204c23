"""Converts events to chat completions. Streamed and whole responses use the same accumulated outputs."""

from typing import Any, ClassVar

from msgspec import UNSET

from api.accumulator import AccumulatedCall, Accumulator
from api.openai.errors import error_before_start, error_in_stream
from api.openai.logprobs import LogprobsFormatter, prompt_logprobs
from api.openai.protocol.chat import (
    ChatChoice,
    ChatChunkChoice,
    ChatCompletionResponse,
    ChatCompletionStreamResponse,
    ChatResponseMessage,
    DeltaFunctionCall,
    DeltaMessage,
    DeltaToolCall,
    FunctionCall,
    FunctionToolCall,
)
from api.openai.reply import ReplyOptions, ReplyState, finish_reason_fields, tool_call_id
from inference.events import CallDelta, Event, Finished, Started, Token

FIRST_DELTA: dict[str, Any] = {"role": "assistant", "content": "", "refusal": None}
TGI_DELTA: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": None}


class ChatWriter:
    """A Writer of chat completions.

    echo                 text in front of every answer
    is_tool_forced       tool_choice names one tool: then finish_reason is stop even with calls
    calls_finish_reason  finish_reason of an answer that ended to wait for the results of its calls
    """

    calls_finish_reason: ClassVar[str] = "tool_calls"

    error_before_start = staticmethod(error_before_start)
    error_in_stream = staticmethod(error_in_stream)

    def __init__(self, options: ReplyOptions, echo: str = "", is_tool_forced: bool = False) -> None:
        self.options = options
        self.echo = echo
        self.is_tool_forced = is_tool_forced
        self.state = ReplyState(options, "chat.completion.chunk")
        self.formatter = (
            None if options.logprobs is None else LogprobsFormatter(options.logprobs, options.tokens_as_ids)
        )
        self.held_reasoning: dict[int, str] = {}  # by answer, without stream_reasoning
        # Other clients join the fields of all deltas: the role comes once, and absent fields are left out.
        self.delta_defaults = TGI_DELTA if options.role_in_every_delta else {}

    def chunk(self, event: Event) -> list[Any]:
        output = self.state.outputs[event.index]
        is_continued = isinstance(event, CallDelta) and event.call_index in output.calls
        self.state.add(event)
        match event:
            case Started():
                return self._first_chunks(event)
            case Token():
                return self._token_chunks(event.index)
            case CallDelta():
                tokens = self._token_chunks(event.index, holds_back=False)
                return [*tokens, *self._held_chunks(event.index), *self._call_chunks(event, is_continued)]
            case Finished():
                return self._last_chunks(event, output)
            case _:
                return []

    def _chunk(
        self, index: int, delta: dict[str, Any], tokens: list[Token] | None = None, **finish_reason: Any
    ) -> ChatCompletionStreamResponse:
        """A chunk of one choice. `tokens` are the tokens of the delta; None for a delta without tokens."""
        returns_ids = self.options.return_token_ids
        choice = ChatChunkChoice(
            index=index,
            delta=DeltaMessage(**self.delta_defaults | delta),
            logprobs=self.formatter.chat_logprobs(tokens) if self.formatter and tokens else None,
            token_ids=[token.id for token in tokens] if tokens is not None and returns_ids else UNSET,
            **finish_reason,
        )
        chunk = ChatCompletionStreamResponse(choices=[choice], **self.state.common_fields)
        if self.options.include_usage:
            chunk.usage = self.state.chunk_usage(index)
        return chunk

    def _first_chunks(self, event: Started) -> list[Any]:
        """A chunk with only the role, then one with the echo, if any."""
        first = self._chunk(event.index, FIRST_DELTA)
        if self.options.return_token_ids:
            first.prompt_token_ids = list(event.prompt_token_ids)
        return [first, self._chunk(event.index, {"content": self.echo})] if self.echo else [first]

    def _token_chunks(self, index: int, holds_back: bool = True) -> list[Any]:
        chunks: list[Any] = []
        for token in self.state.take_tokens(index, holds_back):
            delta = self._reasoning_delta(index, token.reasoning, is_last=bool(token.text))
            if token.text or (self.options.reports_tokens and not delta):
                delta["content"] = token.text
            if delta:
                chunks.append(self._chunk(index, delta, [token]))
        return chunks

    def _held_chunks(self, index: int) -> list[Any]:
        """A chunk with the reasoning that was held back, if any."""
        delta = self._reasoning_delta(index, is_last=True)
        return [self._chunk(index, delta)] if delta else []

    def _reasoning_delta(self, index: int, reasoning: str = "", *, is_last: bool) -> dict[str, Any]:
        """The fields of a delta with more of the reasoning. is_last: something else follows it."""
        reasoning = self.held_reasoning.pop(index, "") + reasoning
        if not (self.options.stream_reasoning or is_last):
            self.held_reasoning[index] = reasoning
            return {}
        return self._reasoning_fields(reasoning)

    def _reasoning_fields(self, reasoning: str) -> dict[str, Any]:
        """Under the two names that clients read: most of them take one."""
        if not (reasoning and self.options.include_reasoning):
            return {}
        return {"reasoning_content": reasoning, "reasoning": reasoning}

    def _call_chunks(self, event: CallDelta, is_continued: bool) -> list[Any]:
        """A chunk with the call's id and name unless it is continued, then one with its arguments, if any."""
        deltas: list[DeltaToolCall] = []
        if not is_continued:
            function = DeltaFunctionCall(name=event.name, arguments="")
            id = tool_call_id(event)
            deltas.append(DeltaToolCall(index=event.call_index, id=id, type="function", function=function))
        if event.arguments:
            function = DeltaFunctionCall(arguments=event.arguments)
            deltas.append(DeltaToolCall(index=event.call_index, function=function))
        return [self._chunk(event.index, self._call_delta_fields(delta)) for delta in deltas]

    def _call_delta_fields(self, call: DeltaToolCall) -> dict[str, Any]:
        return {"tool_calls": [call]}

    def _last_chunks(self, event: Finished, output: Accumulator) -> list[Any]:
        """A chunk with the finish reason and the last token, then one with the total usage if requested."""
        tokens = self.state.last_tokens(event.index)
        text = "".join([token.text for token in tokens]) + event.text
        reasoning = "".join([token.reasoning for token in tokens]) + event.reasoning
        delta = self._reasoning_delta(event.index, reasoning, is_last=True)
        # Clients of vLLM join the content of all deltas without a look at null.
        delta |= {} if output.calls and not text else {"content": text}
        last = self._chunk(event.index, delta, tokens, **self._finish_reason_fields(event, output))
        return [last, *self.state.usage_chunks()] if self.options.include_usage else [last]

    def full_response(self) -> ChatCompletionResponse:
        started, num_logprobs = self.state.outputs[0].started_event, self.options.prompt_logprobs
        return ChatCompletionResponse(
            choices=[self._choice(index, output) for index, output in enumerate(self.state.best_outputs())],
            prompt_logprobs=(
                None if num_logprobs is None else prompt_logprobs(started.prompt_logprobs, num_logprobs)
            ),
            prompt_token_ids=list(started.prompt_token_ids) if self.options.return_token_ids else UNSET,
            **self.state.response_fields(),
        )

    def _choice(self, index: int, output: Accumulator) -> ChatChoice:
        text = self.echo + output.text
        content = None if output.calls and not text and not self.is_tool_forced else text
        return ChatChoice(
            index=index,
            message=ChatResponseMessage(
                content=content, **self._reasoning_fields(output.reasoning), **self._call_fields(output)
            ),
            logprobs=self.formatter.chat_logprobs(output.tokens) if self.formatter else None,
            token_ids=output.ids if self.options.return_token_ids else UNSET,
            **self._finish_reason_fields(output.finished_event, output),
        )

    def _call_fields(self, output: Accumulator) -> dict[str, Any]:
        return {
            "tool_calls": [
                FunctionToolCall(id=tool_call_id(call), function=_function_call(call))
                for call in output.calls.values()
            ]
        }

    def _finish_reason_fields(self, end: Finished, output: Accumulator) -> dict[str, Any]:
        """finish_reason and stop_reason; an answer that stopped with calls waits for their results."""
        reason = finish_reason_fields(end)
        awaits_results = output.calls and not self.is_tool_forced and reason["finish_reason"] == "stop"
        return reason | {"finish_reason": self.calls_finish_reason} if awaits_results else reason


class FunctionWriter(ChatWriter):
    """Writes OpenAI's older format: function_call in place of tool_calls, at most one call per answer."""

    calls_finish_reason: ClassVar[str] = "function_call"

    def _call_delta_fields(self, call: DeltaToolCall) -> dict[str, Any]:
        return {"function_call": call.function}

    def _call_fields(self, output: Accumulator) -> dict[str, Any]:
        calls = [_function_call(call) for call in output.calls.values()]
        return {"tool_calls": [], "function_call": calls[0] if calls else None}


def _function_call(call: AccumulatedCall) -> FunctionCall:
    return FunctionCall(call.name, call.arguments)
