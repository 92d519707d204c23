"""Reads the streams of Llama Stack's inference API, of chats and of completions."""

from typing import Any

import msgspec

from inference.events import Event, Token, TopLogprob
from inference.remote.upstreams.choices import UNKNOWN_ID, known_logprob
from inference.remote.upstreams.streamed_reader import StreamedReader

COUNTS = {"prompt_tokens": "prompt", "completion_tokens": "completion"}  # metrics that are counts


class LlamaStackReader(StreamedReader):
    CHUNK = "chunk of Llama Stack"

    def __init__(self, model: str, index: int) -> None:
        super().__init__(model, index)
        self._num_calls = 0

    def read_chunk(self, chunk: dict[str, Any]) -> list[Event]:
        """A chunk of a chat has the field `event`; one of a completion is its own event."""
        event = chunk.get("event") or chunk
        events = self.choices.start(self.index)
        delta = event["delta"]
        if isinstance(delta, dict) and delta.get("type") == "tool_call":
            events += self._read_call(delta["tool_call"])
        else:
            text = delta if isinstance(delta, str) else delta.get("text") or ""
            events += self.choices.tokens(self._tokens(text, event.get("logprobs")))
        for metric in chunk.get("metrics") or ():
            # A distribution that does not know the counts, as in its streams, sends 0.
            if metric["metric"] in COUNTS and (count := int(metric["value"])):
                self.choices.note_counts(**{COUNTS[metric["metric"]]: count})
        reason = event.get("stop_reason")
        if reason and event.get("event_type", "complete") == "complete":
            events += self.choices.end(self.index, reason)
        return events

    def _read_call(self, call: Any) -> list[Event]:
        """The call once it is complete: the texts before it are the model's own form of it."""
        if not isinstance(call, dict):
            return []
        arguments = call.get("arguments_json") or call.get("arguments") or {}
        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        self._num_calls += 1
        calls = self.choices.calls(self.index)
        return calls.add(self._num_calls, call.get("call_id") or "", call["tool_name"], text)

    def _tokens(self, text: str, logprobs: Any) -> list[Token]:
        """One token for the text, with the logprobs of the key that equals it, else of the most probable."""
        if not text:
            return []
        by_text = (logprobs or [{}])[0].get("logprobs_by_token") or {}
        ranked = sorted(by_text.items(), key=lambda item: item[1], reverse=True)
        logprob = by_text.get(text, ranked[0][1] if ranked else None)
        top = tuple(TopLogprob(UNKNOWN_ID, name, value) for name, value in ranked)
        return [Token(self.index, UNKNOWN_ID, text, known_logprob(logprob), top, spelling=text)]
