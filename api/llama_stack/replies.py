"""From events to the JSON of a chat or completion reply, streamed and whole, in a generation's words.

Knows events and a Generation; neither framing nor HTTP. Stream and whole reply fold the same events.
"""

from typing import Any

from api.llama_stack.errors import broken, failed
from api.llama_stack.generation import Generation
from api.llama_stack.words import Scores, complete_calls, metrics, scores, stop_reason
from api.said import Said
from inference.types import CallDelta, Event, Finished, Started, Token


class Reply:
    """What has been said so far, and how errors are told: the same for both kinds of reply."""

    failed = staticmethod(failed)
    broken = staticmethod(broken)

    def __init__(self, generation: Generation, logprobs: bool) -> None:
        self.generation = generation
        self.logprobs = logprobs
        self.said = Said()

    @property
    def scores(self) -> Scores | None:
        return scores(self.said.tokens) if self.logprobs else None


class CompletionWriter(Reply):
    def chunk(self, event: Event) -> list[Any]:
        self.said.add(event)
        match event:
            case Token() if self.logprobs:
                return [_piece(event.text, scores([event]))]
            case Token() if event.text:
                return [_piece(event.text)]
            case Finished():
                rest = [_piece(event.text)] if event.text else []
                return [*rest, _piece("", stop_reason=stop_reason(self.said))]
            case _:
                return []

    def whole(self) -> dict[str, Any]:
        said = self.said
        body = {"content": said.text, "stop_reason": stop_reason(said), "logprobs": self.scores}
        if self.generation.typed:
            return body | {"metrics": metrics(said)}
        return {"completion_message": self.message()} | body if self.generation.doubled else body

    def message(self) -> dict[str, Any]:
        said = self.said
        return {"role": "assistant", "content": said.text, "stop_reason": stop_reason(said), "tool_calls": []}


def _piece(text: str, logprobs: Scores | None = None, stop_reason: str | None = None) -> dict[str, Any]:
    return {"delta": text, "stop_reason": stop_reason, "logprobs": logprobs}


class ChatWriter(Reply):
    def chunk(self, event: Event) -> list[Any]:
        goes_on = isinstance(event, CallDelta) and event.number in self.said.calls
        self.said.add(event)
        match event:
            case Started():
                return [self._event("start", self.generation.text(""))]
            case Token() if self.logprobs:
                return [self._event("progress", self.generation.text(event.text), scores([event]))]
            case Token() if event.text:
                return [self._event("progress", self.generation.text(event.text))]
            case CallDelta():
                return self._call(event, goes_on)
            case Finished():
                return self._end(event)
            case _:
                return []

    def _call(self, event: CallDelta, goes_on: bool) -> list[Any]:
        piece = self.generation.piece
        deltas = [] if goes_on else [piece("", "started")]
        if event.arguments:
            deltas.append(piece(event.arguments, "in_progress"))
        if event.done:
            deltas.append(piece(self.generation.call(self.said.calls[event.number]), "succeeded"))
        return [self._event("progress", delta) for delta in deltas]

    def _end(self, event: Finished) -> list[Any]:
        """A call that the answer's end cut short has failed."""
        generation = self.generation
        cut = [call.arguments for call in self.said.calls.values() if not call.done]
        deltas = [generation.text(event.text)] if event.text else []
        deltas += [generation.piece(arguments, "failed") for arguments in cut]
        complete = self._event("complete", generation.text(""), stop_reason=stop_reason(self.said))
        return [*(self._event("progress", delta) for delta in deltas), complete]

    def _event(
        self, kind: str, delta: Any, logprobs: Scores | None = None, stop_reason: str | None = None
    ) -> dict[str, Any]:
        event = {"event_type": kind, "delta": delta, "logprobs": logprobs, "stop_reason": stop_reason}
        if not self.generation.typed:
            return {"event": event}
        return {"metrics": metrics(self.said) if kind == "complete" else None, "event": event}

    def whole(self) -> dict[str, Any]:
        body = {"completion_message": self.message(), "logprobs": self.scores}
        return body | {"metrics": metrics(self.said)} if self.generation.typed else body

    def message(self) -> dict[str, Any]:
        said, generation = self.said, self.generation
        return {
            "role": "assistant",
            "content": generation.content(said.text),
            "stop_reason": stop_reason(said),
            "tool_calls": [generation.call(call) for call in complete_calls(said)],
        }
