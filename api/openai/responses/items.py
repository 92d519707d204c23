"""What a response consists of, as it comes: messages and calls, each with the events that tell of it.

An item is opened, grows, and is closed: completed, or incomplete where it was cut short. Knows the protocol's
words for that, not where the pieces come from.
"""

import secrets
from dataclasses import dataclass, field
from typing import Any

from api.openai.words import call_id
from inference.types import CallDelta

Events = list[dict[str, Any]]
Entries = list[dict[str, Any]]  # logprobs, one a token


@dataclass(slots=True)
class Message:
    """A message of one part; `place` is its index in the output."""

    place: int
    id: str = field(default_factory=lambda: f"msg_{secrets.token_hex(16)}")
    status: str = "in_progress"
    pieces: list[str] = field(default_factory=list)
    scores: Entries = field(default_factory=list)

    def opened(self) -> Events:
        added = {"type": "response.output_item.added", "output_index": self.place, "item": self._told([])}
        return [added, self._event("content_part.added", part=self._part())]

    def more(self, text: str, scores: Entries) -> Events:
        self.pieces.append(text)
        self.scores += scores
        return [self._event("output_text.delta", delta=text, logprobs=scores)]

    def closed(self, status: str) -> Events:
        self.status = status
        text = "".join(self.pieces)
        return [
            self._event("output_text.done", text=text, logprobs=self.scores),
            self._event("content_part.done", part=self._part()),
            {"type": "response.output_item.done", "output_index": self.place, "item": self.told()},
        ]

    def told(self) -> dict[str, Any]:
        return self._told([self._part()])

    def _told(self, content: list[Any]) -> dict[str, Any]:
        told = {"id": self.id, "type": "message", "status": self.status}
        return told | {"role": "assistant", "content": content}

    def _part(self) -> dict[str, Any]:
        part = {"type": "output_text", "text": "".join(self.pieces), "annotations": []}
        return part | {"logprobs": list(self.scores)}

    def _event(self, name: str, **values: Any) -> dict[str, Any]:
        told = {"type": f"response.{name}", "item_id": self.id, "output_index": self.place}
        return told | {"content_index": 0} | values


@dataclass(slots=True)
class FunctionCall:
    """A call of a function; `call_id` is what its result will be told with."""

    place: int
    number: int
    call_id: str
    name: str
    id: str = field(default_factory=lambda: f"fc_{secrets.token_hex(16)}")
    status: str = "in_progress"
    pieces: list[str] = field(default_factory=list)

    @classmethod
    def begun(cls, place: int, event: CallDelta) -> "FunctionCall":
        return cls(place, event.number, call_id(event), event.name)

    def opened(self) -> Events:
        return [self._item_event("added")]

    def more(self, arguments: str) -> Events:
        self.pieces.append(arguments)
        return [self._event("delta", delta=arguments)]

    def closed(self, status: str) -> Events:
        self.status = status
        done = self._event("done", arguments="".join(self.pieces), name=self.name)
        return [done, self._item_event("done")]

    def told(self) -> dict[str, Any]:
        told = {"id": self.id, "type": "function_call", "status": self.status}
        return told | {"call_id": self.call_id, "name": self.name, "arguments": "".join(self.pieces)}

    def _event(self, step: str, **values: Any) -> dict[str, Any]:
        kind = f"response.function_call_arguments.{step}"
        return {"type": kind, "item_id": self.id, "output_index": self.place} | values

    def _item_event(self, name: str) -> dict[str, Any]:
        return {"type": f"response.output_item.{name}", "output_index": self.place, "item": self.told()}
