"""The output items of a response (messages, reasoning, tool calls), and the events that each of them streams.

An item is opened, appended to, and closed with the status completed or incomplete.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from api.openai.protocol.chat import ChatLogprobsContent
from api.openai.reply import tool_call_id
from api.openai.responses.custom_input import CustomInput
from api.openai.responses.tools import CallableTools
from inference.events import CallDelta

Events = list[dict[str, Any]]
LogprobEntries = list[ChatLogprobsContent]  # one per token


class TextKind(NamedTuple):
    """How messages and reasoning differ: the item's type, the type of its content part, by which its events
    are named, and the fields of such items alone.
    """

    type: str
    id_prefix: str
    part_type: str
    own_fields: Mapping[str, Any]


MESSAGE = TextKind("message", "msg", "output_text", {"role": "assistant"})
REASONING = TextKind("reasoning", "rs", "reasoning_text", {"summary": []})


@dataclass(slots=True)
class TextItem:
    """A message, or reasoning, with one content part.

    output_index  index of the item in the response's output
    key           random part of the item's id
    deltas        pieces of the text, in order
    logprobs      of a message's tokens
    """

    kind: TextKind
    output_index: int
    key: str
    status: str = "in_progress"
    deltas: list[str] = field(default_factory=list)
    logprobs: LogprobEntries = field(default_factory=list)

    @property
    def id(self) -> str:
        return f"{self.kind.id_prefix}_{self.key}"

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
        return [self._event(f"{self.kind.part_type}.delta", delta=text, **self._logprobs(logprobs))]

    def close(self, status: str) -> Events:
        self.status = status
        text = "".join(self.deltas)
        return [
            self._event(f"{self.kind.part_type}.done", text=text, **self._logprobs(self.logprobs)),
            self._event("content_part.done", part=self._content_part()),
            {"type": "response.output_item.done", "output_index": self.output_index, "item": self.to_json()},
        ]

    def to_json(self) -> dict[str, Any]:
        return self._to_json([self._content_part()])

    def _to_json(self, content: list[Any]) -> dict[str, Any]:
        item = {"id": self.id, "type": self.kind.type, "status": self.status}
        return {**item, **self.kind.own_fields, "content": content}

    def _content_part(self) -> dict[str, Any]:
        content_part = {"type": self.kind.part_type, "text": "".join(self.deltas)}
        annotations: dict[str, Any] = {"annotations": []} if self.kind is MESSAGE else {}
        return content_part | annotations | self._logprobs(list(self.logprobs))

    def _logprobs(self, logprobs: LogprobEntries) -> dict[str, Any]:
        return {"logprobs": logprobs} if self.kind is MESSAGE else {}

    def _event(self, name: str, **values: Any) -> dict[str, Any]:
        event = {"type": f"response.{name}", "item_id": self.id, "output_index": self.output_index}
        return event | {"content_index": 0} | values


class CallKind(NamedTuple):
    """How calls of functions and of custom tools differ: the item's type, its events, and the called text."""

    type: str
    id_prefix: str
    event: str
    field: str


FUNCTION_CALL = CallKind("function_call", "fc", "function_call_arguments", "arguments")
CUSTOM_CALL = CallKind("custom_tool_call", "ctc", "custom_tool_call_input", "input")


@dataclass(slots=True)
class CallItem:
    """A call of a function or of a custom tool.

    output_index  index of the item in the response's output
    key           random part of the item's id
    call_index    CallDelta.call_index
    call_id       the client sends the result of the call with this id
    namespace     namespace of the tool, if it has one
    custom_input  decodes the input of a custom tool; None: the tool is a function
    deltas        pieces of the arguments' JSON text or of the custom tool's input, in order
    """

    output_index: int
    key: str
    call_index: int
    call_id: str
    name: str
    namespace: str | None = None
    custom_input: CustomInput | None = None
    status: str = "in_progress"
    deltas: list[str] = field(default_factory=list)

    @classmethod
    def from_delta(cls, output_index: int, key: str, event: CallDelta, tools: CallableTools) -> "CallItem":
        item = cls(output_index, key, event.call_index, tool_call_id(event), event.name)
        if tool := tools.get(event.name):
            item.name, item.namespace = tool.definition.name, tool.namespace
            item.custom_input = CustomInput() if tool.is_custom else None
        return item

    @property
    def id(self) -> str:
        return f"{self._kind.id_prefix}_{self.key}"

    def open(self) -> Events:
        return [self._item_event("added")]

    def append(self, arguments: str) -> Events:
        return self._append(self.custom_input.feed(arguments) if self.custom_input else arguments)

    def close(self, status: str) -> Events:
        events = self._append(self.custom_input.close()) if self.custom_input else []
        self.status = status
        name = {} if self.custom_input else {"name": self.name}
        done = self._event("done", **{self._kind.field: "".join(self.deltas)}, **name)
        return [*events, done, self._item_event("done")]

    def to_json(self) -> dict[str, Any]:
        item = {"id": self.id, "type": self._kind.type, "status": self.status}
        item |= {"call_id": self.call_id, "name": self.name, self._kind.field: "".join(self.deltas)}
        return item | ({"namespace": self.namespace} if self.namespace else {})

    @property
    def _kind(self) -> CallKind:
        return CUSTOM_CALL if self.custom_input else FUNCTION_CALL

    def _append(self, text: str) -> Events:
        if not text:
            return []
        self.deltas.append(text)
        return [self._event("delta", delta=text)]

    def _event(self, step: str, **values: Any) -> dict[str, Any]:
        kind = f"response.{self._kind.event}.{step}"
        return {"type": kind, "item_id": self.id, "output_index": self.output_index} | values

    def _item_event(self, name: str) -> dict[str, Any]:
        return {
            "type": f"response.output_item.{name}",
            "output_index": self.output_index,
            "item": self.to_json(),
        }
