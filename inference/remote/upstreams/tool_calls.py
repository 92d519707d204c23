"""Puts the tool calls of one answer together from an upstream's deltas."""

from dataclasses import dataclass
from uuid import uuid4

from inference.events import CallDelta, Event
from inference.remote.failures import broken
from inference.untrusted_json import decode_json

VLLM_PREFIX = "chatcmpl-tool-"  # which the dialect of the client adds itself


@dataclass(slots=True)
class OpenCall:
    """A call whose arguments are still arriving. number: the upstream's, index: ours, without gaps."""

    number: int
    index: int
    id: str
    name: str
    arguments: str = ""


class ToolCallReader:
    """The calls of the answer `index`, one after the other. Raises UpstreamFailure.

    model  the model in messages
    """

    def __init__(self, model: str, index: int) -> None:
        self._model = model
        self._index = index
        self._num_calls = 0
        self._open: OpenCall | None = None

    def add(self, number: int, id: str, name: str, arguments: str) -> list[Event]:
        """The events of a delta of call `number`. A new number completes the call before it."""
        events: list[Event] = []
        if not all(isinstance(each, str) for each in (id, name, arguments)):
            raise broken(self._model, "a tool call has the wrong form")
        if self._open is None or self._open.number != number:
            events = self.finish()
            if not name:
                raise broken(self._model, "a tool call has no name")
            call_id = id.removeprefix(VLLM_PREFIX) or f"call_{uuid4().hex[:24]}"
            self._open = OpenCall(number, self._num_calls, call_id, name)
            self._num_calls += 1
            if not arguments:
                return [*events, self._delta(self._open, "", is_last=False)]
        self._open.arguments += arguments
        return [*events, self._delta(self._open, arguments, is_last=False)]

    def finish(self, is_whole: bool = True) -> list[Event]:
        """Complete the open call, if there is one. is_whole: its arguments must be a JSON object."""
        call, self._open = self._open, None
        if call is None:
            return []
        rest = "" if call.arguments.strip() else "{}"
        if is_whole and not is_object(call.arguments + rest):
            raise broken(self._model, f"the arguments of the call of {call.name} are no JSON object")
        return [self._delta(call, rest if is_whole else "", is_last=is_whole)]

    def _delta(self, call: OpenCall, arguments: str, *, is_last: bool) -> CallDelta:
        return CallDelta(self._index, call.index, call.id, call.name, arguments, done=is_last)


def is_object(text: str) -> bool:
    try:
        return isinstance(decode_json(text), dict)
    except ValueError:
        return False
