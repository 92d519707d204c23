"""The output items of a response (messages and function calls), and the events that each of them streams.

An item is opened, appended to, and closed with the status completed or incomplete.
"""

import secrets
from dataclasses import dataclass, field
from typing import Any

from api.openai.protocol.chat import ChatLogprobsContent
from api.openai.reply import tool_call_id
from inference.types import CallDelta

Events = list[dict[str, Any]]
LogprobEntries = list[ChatLogprobsContent]  # one per token


@dataclass(slots=True)
class MessageItem:
    """A message with one content part.

    output_index  index of the item in the response's output
    deltas        pieces of the text, in order
    """

    output_index: int
    id: str = field(default_factory=lambda: f"msg_{secrets.token_hex(16)}")
    status: str = "in_progress"
    deltas: list[str] = field(default_factory=list)
    logprobs: LogprobEntries = field(default_factory=list)

    def open(self) -> Events:
        added = {
            "type": "response.output_item.added",
            "output_index": self.output_index,
            "item": self._to_json([]),
        }
        return [added, self._event("content_part.added", part=self._content_part())]

    def append(self, text: str, logprobs: LogprobEntries) -> Events:
        self.deltas.append(text)
        self.logprobs += logprobs
        return [self._event("output_text.delta", delta=text, logprobs=logprobs)]

    def close(self, status: str) -> Events:
        self.status = status
        text = "".join(self.deltas)
        return [
            self._event("output_text.done", text=text, logprobs=self.logprobs),
            self._event("content_part.done", part=self._content_part()),
            {"type": "response.output_item.done", "output_index": self.output_index, "item": self.to_json()},
        ]

    def to_json(self) -> dict[str, Any]:
        return self._to_json([self._content_part()])

    def _to_json(self, content: list[Any]) -> dict[str, Any]:
        item = {"id": self.id, "type": "message", "status": self.status}
        return item | {"role": "assistant", "content": content}

    def _content_part(self) -> dict[str, Any]:
        content_part = {"type": "output_text", "text": "".join(self.deltas), "annotations": []}
        return content_part | {"logprobs": list(self.logprobs)}

    def _event(self, name: str, **values: Any) -> dict[str, Any]:
        event = {"type": f"response.{name}", "item_id": self.id, "output_index": self.output_index}
        return event | {"content_index": 0} | values


@dataclass(slots=True)
class FunctionCallItem:
    """A call of a function.

    output_index  index of the item in the response's output
    call_index    CallDelta.call_index
    call_id       the client sends the result of the call with this id
    deltas        pieces of the arguments' JSON text, in order
    """

    output_index: int
    call_index: int
    call_id: str
    name: str
    id: str = field(default_factory=lambda: f"fc_{secrets.token_hex(16)}")
    status: str = "in_progress"
    deltas: list[str] = field(default_factory=list)

    @classmethod
    def from_delta(cls, output_index: int, event: CallDelta) -> "FunctionCallItem":
        return cls(output_index, event.call_index, tool_call_id(event), event.name)

    def open(self) -> Events:
        return [self._item_event("added")]

    def append(self, arguments: str) -> Events:
        self.deltas.append(arguments)
        return [self._event("delta", delta=arguments)]

    def close(self, status: str) -> Events:
        self.status = status
        done = self._event("done", arguments="".join(self.deltas), name=self.name)
        return [done, self._item_event("done")]

    def to_json(self) -> dict[str, Any]:
        item = {"id": self.id, "type": "function_call", "status": self.status}
        return item | {"call_id": self.call_id, "name": self.name, "arguments": "".join(self.deltas)}

    def _event(self, step: str, **values: Any) -> dict[str, Any]:
        kind = f"response.function_call_arguments.{step}"
        return {"type": kind, "item_id": self.id, "output_index": self.output_index} | values

    def _item_event(self, name: str) -> dict[str, Any]:
        return {
            "type": f"response.output_item.{name}",
            "output_index": self.output_index,
            "item": self.to_json(),
        }
