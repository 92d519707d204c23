"""Reads the streams of Llama Stack's inference API, of chats and of completions."""

from collections.abc import Mapping
from typing import Any

import msgspec

from inference.remote.choices import Choices, known_logprob
from inference.remote.event_stream import ServerSentEvent
from inference.remote.failures import broken, in_band
from inference.types import Event, Token, TopLogprob

UNKNOWN_ID = -1


class LlamaStackReader:
    """An AnswerReader for the answer `index`."""

    def __init__(self, model: str, index: int) -> None:
        self._model = model
        self._index = index
        self._choices = Choices(model, (index,))
        self._num_calls = 0

    @property
    def is_complete(self) -> bool:
        return self._choices.are_finished

    def read(self, event: ServerSentEvent) -> list[Event]:
        try:
            chunk = msgspec.json.decode(event.data)
            if chunk.get("error"):
                raise in_band(self._model, chunk["error"])
            return self._read_chunk(chunk)
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
            raise broken(self._model, "an event is no chunk of Llama Stack") from None

    def read_document(self, body: bytes) -> list[Event]:
        raise broken(self._model, "it is not streamed")

    def finish(self) -> list[Event]:
        return self._choices.finish()

    def finish_at_deadline(self) -> list[Event]:
        return self._choices.finish_at_deadline()

    def _read_chunk(self, chunk: Mapping[str, Any]) -> list[Event]:
        """A chunk of a chat has the field `event`; one of a completion is its own event."""
        event = chunk.get("event") or chunk
        events = self._choices.start(self._index)
        delta = event["delta"]
        if isinstance(delta, dict) and delta.get("type") == "tool_call":
            events += self._read_call(delta["tool_call"])
        else:
            text = delta if isinstance(delta, str) else delta.get("text") or ""
            events += self._choices.tokens(self._tokens(text, event.get("logprobs")))
        for metric in chunk.get("metrics") or ():
            if metric["metric"] in ("prompt_tokens", "completion_tokens"):
                setattr(self._choices, metric["metric"], int(metric["value"]))
        reason = event.get("stop_reason")
        if reason and event.get("event_type", "complete") == "complete":
            events += self._choices.end(self._index, reason)
        return events

    def _read_call(self, call: Any) -> list[Event]:
        """The call once it is complete: the texts before it are the model's own form of it."""
        if not isinstance(call, dict):
            return []
        arguments = call.get("arguments_json") or call.get("arguments") or {}
        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        self._num_calls += 1
        calls = self._choices.calls(self._index)
        return calls.add(self._num_calls, call.get("call_id") or "", call["tool_name"], text)

    def _tokens(self, text: str, logprobs: Any) -> list[Token]:
        """One token for the text, with the logprobs of the key that equals it, else of the most probable."""
        if not text:
            return []
        by_text = (logprobs or [{}])[0].get("logprobs_by_token") or {}
        ranked = sorted(by_text.items(), key=lambda item: item[1], reverse=True)
        logprob = by_text.get(text, ranked[0][1] if ranked else None)
        top = tuple(TopLogprob(UNKNOWN_ID, name, value) for name, value in ranked)
        return [Token(self._index, UNKNOWN_ID, text, known_logprob(logprob), top, spelling=text)]
